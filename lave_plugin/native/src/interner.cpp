#include "interner.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "item.hpp"

namespace lave {

namespace {

std::uint32_t hash_of(const std::vector<std::uint64_t>& words) {
    std::uint64_t hash = 0x9e3779b97f4a7c15ULL * (words.size() + 1);
    for (std::uint64_t word : words) hash = (hash ^ mix(word)) * 0x9e3779b97f4a7c15ULL + 1;
    return static_cast<std::uint32_t>(mix(hash));
}

}  // namespace

Interner::Found Interner::intern(const std::vector<std::uint64_t>& words) {
    const std::uint32_t hash = hash_of(words);
    const std::size_t last = slots_.size() - 1;
    std::size_t at = hash & last;
    for (; slots_[at].id >= 0; at = (at + 1) & last) {
        if (slots_[at].hash != hash) continue;
        const Words known = (*this)[slots_[at].id];
        if (std::equal(known.begin(), known.end(), words.begin(), words.end())) {
            return {slots_[at].id, false};
        }
    }
    const std::int32_t id = append(words);
    slots_[at].id = id;
    slots_[at].hash = hash;
    if (2 * ++indexed_ > slots_.size()) grow();
    return {id, true};
}

std::int32_t Interner::append(const std::vector<std::uint64_t>& words) {
    if (size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
        throw std::length_error("the grammar has more states than can be numbered");
    }
    arena_.insert(arena_.end(), words.begin(), words.end());
    begins_.push_back(arena_.size());
    return static_cast<std::int32_t>(size() - 1);
}

void Interner::grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    const std::size_t last = slots_.size() - 1;
    for (const Slot& slot : old) {
        if (slot.id < 0) continue;
        std::size_t at = slot.hash & last;
        while (slots_[at].id >= 0) at = (at + 1) & last;
        slots_[at] = slot;
    }
}

std::size_t Interner::bytes() const {
    return arena_.capacity() * sizeof(std::uint64_t) + begins_.capacity() * sizeof(std::size_t) +
           slots_.capacity() * sizeof(Slot);
}

}  // namespace lave
