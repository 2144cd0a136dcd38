#include "item.hpp"

namespace lave {

void WordSet::clear() {
    words_.clear();
    if (++epoch_ == 0) {  // all epochs are used up: the slots must really be emptied
        slots_.assign(slots_.size(), Slot());
        epoch_ = 1;
    }
}

std::size_t WordSet::slot_of(std::uint64_t word) const {
    const std::size_t last = slots_.size() - 1;
    std::size_t at = mix(word) & last;
    while (slots_[at].epoch == epoch_ && slots_[at].word != word) at = (at + 1) & last;
    return at;
}

bool WordSet::contains(std::uint64_t word) const { return slots_[slot_of(word)].epoch == epoch_; }

bool WordSet::insert(std::uint64_t word) {
    Slot& slot = slots_[slot_of(word)];
    if (slot.epoch == epoch_) return false;
    slot.word = word;
    slot.epoch = epoch_;
    words_.push_back(word);
    if (2 * words_.size() > slots_.size()) grow();
    return true;
}

void WordSet::grow() {
    slots_.assign(2 * slots_.size(), Slot());
    epoch_ = 1;
    for (std::uint64_t word : words_) {
        Slot& slot = slots_[slot_of(word)];
        slot.word = word;
        slot.epoch = epoch_;
    }
}

}  // namespace lave
