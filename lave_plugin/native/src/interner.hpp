// Hash-consing of sequences of words: equal content, equal id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lave {

struct Words {
    const std::uint64_t* first;
    std::size_t count;
    const std::uint64_t* begin() const { return first; }
    const std::uint64_t* end() const { return first + count; }
    bool empty() const { return count == 0; }
};

// All sequences lie in one arena, one behind the other, in the order of their ids.
class Interner {
public:
    struct Found {
        std::int32_t id;
        bool is_new;
    };

    // The id of this content. `words` must not lie in the arena itself.
    Found intern(const std::vector<std::uint64_t>& words);

    // An id for content that will not be found by `intern`.
    std::int32_t append(const std::vector<std::uint64_t>& words);

    // Valid until the next call that adds something.
    Words operator[](std::int32_t id) const {
        const std::size_t from = begins_[id];
        return {arena_.data() + from, begins_[id + 1] - from};
    }

    std::size_t size() const { return begins_.size() - 1; }
    std::size_t bytes() const;

private:
    struct Slot {
        std::int32_t id = -1;
        std::uint32_t hash = 0;
    };
    void grow();

    std::vector<std::uint64_t> arena_;
    std::vector<std::size_t> begins_ = {0};
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    std::size_t indexed_ = 0;
};

}  // namespace lave
