#include "candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

// The loops over a vocabulary go by vectors, as GCC and Clang spell them, compiled for any machine
// and, where the loader can choose, for a newer one. The lanes are the same everywhere, and so is
// every sum to the bit.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define LAVE_BY_MACHINE __attribute__((target_clones("avx2", "default")))
#else
#define LAVE_BY_MACHINE
#endif

namespace lave {

namespace {

constexpr std::size_t kLanes = 8;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Bits = std::int32_t __attribute__((vector_size(4 * kLanes)));
constexpr float kNever = -std::numeric_limits<float>::infinity();

#define LAVE_INLINE __attribute__((always_inline)) inline

LAVE_INLINE Floats load(const float* from) {
    Floats result;
    std::memcpy(&result, from, sizeof result);
    return result;
}

LAVE_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// e^x for x <= 0 to about 1e-7 of its value: 2^n times a Taylor polynomial of what is left of x
// (Cody and Waite 1980).
LAVE_INLINE Floats exp_of_negative(Floats x) {
    x = larger(x, Floats{} - 87.0F);  // below, floats are subnormal
    const Floats shifted = x * 1.44269504F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
    const Floats n = shifted - 12582912.0F;
    const Floats r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
    Floats power = r * (1.0F / 5040) + 1.0F / 720;
    power = power * r + 1.0F / 120;
    power = power * r + 1.0F / 24;
    power = power * r + 1.0F / 6;
    power = power * r + 0.5F;
    power = power * r + 1.0F;
    power = power * r + 1.0F;
    const Bits exponent = (reinterpret_cast<Bits>(shifted) - 0x4B400000 + 127) << 23;
    return power * reinterpret_cast<Floats>(exponent);
}

// The largest of each lane of each of `chunks` pieces, kLanes * chunks.
LAVE_BY_MACHINE void find_maxima(const float* values, std::size_t count, std::size_t chunks,
                                 float* maxima) {
    const std::size_t vectors = count / kLanes;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        Floats lanes = Floats{} + kNever;
        const std::size_t end = vectors * (chunk + 1) / chunks * kLanes;
        for (std::size_t at = vectors * chunk / chunks * kLanes; at < end; at += kLanes) {
            lanes = larger(load(values + at), lanes);
        }
        std::memcpy(maxima + chunk * kLanes, &lanes, sizeof lanes);
    }
}

LAVE_BY_MACHINE double sum_of_exponentials(const float* values, std::size_t count, float most) {
    double sum = 0;
    // In pieces, so that small terms are not lost in a large float.
    constexpr std::size_t kPiece = 128 * kLanes;
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
        Floats lanes{};
        const std::size_t end = begin + kPiece < count ? begin + kPiece : count;
        for (std::size_t at = begin; at < end; at += kLanes) {
            lanes += exp_of_negative(load(values + at) - most);
        }
        for (std::size_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
    }
    return sum;
}

// The first multiple of kLanes from `begin` on with a lane that is not below `floor`; or `count`.
LAVE_BY_MACHINE std::size_t next_not_below(const float* values, std::size_t begin,
                                           std::size_t count, float floor) {
    for (std::size_t at = begin; at < count; at += kLanes) {
        const Bits found = load(values + at) >= Floats{} + floor;
        std::int32_t any = 0;
        for (std::size_t lane = 0; lane < kLanes; ++lane) any |= found[lane];
        if (any != 0) return at;
    }
    return count;
}

}  // namespace

std::size_t most_probable(const float* values, std::size_t count) {
    const std::size_t whole = count / kLanes * kLanes;
    float most = kNever;
    if (whole > 0) {
        float lanes[kLanes];
        find_maxima(values, whole, 1, lanes);
        most = *std::max_element(lanes, lanes + kLanes);
    }
    for (std::size_t at = whole; at < count; ++at) most = std::max(most, values[at]);
    std::size_t at = whole > 0 ? next_not_below(values, 0, whole, most) : 0;
    while (at < count && !(values[at] >= most)) ++at;
    return at < count ? at : 0;
}

CandidateCutter::CandidateCutter(const std::int32_t* never, std::size_t never_count,
                                 std::size_t vocabulary, std::size_t top_k)
    : never_(never, never + never_count),
      vocabulary_(vocabulary),
      top_k_(std::min(top_k, vocabulary)),
      allowed_((vocabulary + kLanes - 1) / kLanes * kLanes, kNever),
      maxima_(std::max(kLeastChunks * kLanes, 4 * top_k_ / kLanes * kLanes)) {}

// The `top_k_` highest of what is allowed into `best_`, in order.
void CandidateCutter::rank() {
    // So many pieces of the vocabulary hold a value that is as high, so none of the best is lower.
    std::nth_element(maxima_.begin(), maxima_.begin() + (top_k_ - 1), maxima_.end(),
                     std::greater<float>());
    // Never minus infinity: that is what is no candidate.
    const float floor = std::max(maxima_[top_k_ - 1], std::numeric_limits<float>::lowest());
    best_.clear();
    for (std::size_t begin = 0;; begin += kLanes) {
        begin = next_not_below(allowed_.data(), begin, allowed_.size(), floor);
        if (begin >= vocabulary_) break;
        for (std::size_t at = begin; at < std::min(begin + kLanes, vocabulary_); ++at) {
            if (allowed_[at] >= floor) {
                best_.push_back({allowed_[at], static_cast<std::int32_t>(at)});
            }
        }
    }
    const std::size_t kept = std::min(top_k_, best_.size());
    std::partial_sort(best_.begin(), best_.begin() + kept, best_.end(),
                      [](const Ranked& a, const Ranked& b) {
                          return a.value > b.value || (a.value == b.value && a.id < b.id);
                      });
    best_.resize(kept);
}

void CandidateCutter::cut(const float* logits, const std::vector<std::int32_t>& named,
                          std::int32_t first, std::int32_t* ids, float* probabilities) {
    std::copy_n(logits, vocabulary_, allowed_.data());
    for (const std::int32_t id : never_) allowed_[id] = kNever;
    for (const std::int32_t id : named) allowed_[id] = logits[id];
    find_maxima(allowed_.data(), allowed_.size(), maxima_.size() / kLanes, maxima_.data());
    const float most = *std::max_element(maxima_.begin(), maxima_.end());
    std::fill_n(ids, top_k_ + 1, -1);
    std::fill_n(probabilities, top_k_ + 1, 0.0F);
    ids[0] = first;
    if (!std::isfinite(most)) return;
    // What is never one counts e^-87, which is nothing beside the largest's 1.
    const double sum = sum_of_exponentials(allowed_.data(), allowed_.size(), most);
    const auto probability_of = [&](std::int32_t id) {
        return static_cast<float>(std::exp(static_cast<double>(allowed_[id]) - most) / sum);
    };
    probabilities[0] = probability_of(first);
    if (top_k_ == 0) return;
    rank();
    std::size_t count = 1;
    for (const Ranked& one : best_) {
        if (one.id == first) continue;
        ids[count] = one.id;
        probabilities[count++] = probability_of(one.id);
    }
}

}  // namespace lave
