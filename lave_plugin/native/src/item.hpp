// Items of the parser, and a set of them that is filled and emptied for every new state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lave {

// (node, continuation) in one word; a negative continuation is provisional: -1 - rule.
using Item = std::uint64_t;

inline Item make_item(std::int32_t node, std::int32_t continuation) {
    return static_cast<Item>(static_cast<std::uint32_t>(node)) << 32 |
           static_cast<std::uint32_t>(continuation);
}
inline std::int32_t node_of(Item item) { return static_cast<std::int32_t>(item >> 32); }
inline std::int32_t continuation_of(Item item) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(item));
}

// Finaliser of MurmurHash3: every bit of the word reaches every bit of the hash.
inline std::uint64_t mix(std::uint64_t word) {
    word ^= word >> 33;
    word *= 0xff51afd7ed558ccdULL;
    word ^= word >> 33;
    word *= 0xc4ceb9fe1a85ec53ULL;
    return word ^ (word >> 33);
}

// A set of words that keeps the order of insertion. Emptying it costs nothing: slots of an older
// epoch count as free.
class WordSet {
public:
    void clear();
    bool insert(std::uint64_t word);
    bool contains(std::uint64_t word) const;
    std::size_t size() const { return words_.size(); }
    std::uint64_t operator[](std::size_t index) const { return words_[index]; }

private:
    std::size_t slot_of(std::uint64_t word) const;
    void grow();

    struct Slot {
        std::uint64_t word = 0;
        std::uint32_t epoch = 0;
    };
    std::vector<std::uint64_t> words_;
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    std::uint32_t epoch_ = 1;
};

}  // namespace lave
