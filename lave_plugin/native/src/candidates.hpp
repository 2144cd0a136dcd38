// Candidates cut from logits that lie in the host's memory: what lave_plugin/candidates.py, which is
// the reference, does with tensors on any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lave {

// The first of the largest of `count` values, at least one; 0 where none is a number.
std::size_t most_probable(const float* values, std::size_t count);

// Used again from position to position; a thread has its own.
class CandidateCutter {
public:
    // What is in `never` is no candidate, unless it is named.
    CandidateCutter(const std::int32_t* never, std::size_t never_count, std::size_t vocabulary,
                    std::size_t top_k);

    // Writes the ids of `first` and of the `top_k` most probable others, the lower id first among
    // equals, and their probabilities, [top_k + 1] each, -1 and 0 behind the last.
    void cut(const float* logits, const std::vector<std::int32_t>& named, std::int32_t first,
             std::int32_t* ids, float* probabilities);

private:
    struct Ranked {
        float value;
        std::int32_t id;
    };
    void rank();

    static constexpr std::size_t kLeastChunks = 8;

    std::vector<std::int32_t> never_;
    std::size_t vocabulary_, top_k_;
    std::vector<float> allowed_;  // padded with minus infinity to whole vectors
    std::vector<float> maxima_;   // of pieces of it
    std::vector<Ranked> best_;
};

}  // namespace lave
