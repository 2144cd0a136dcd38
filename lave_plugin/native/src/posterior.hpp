// Posterior marginals of a block's candidates under the grammar: those of
// lave_plugin/strategies/confidence.py, which is the reference and says what they are for.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "search.hpp"

namespace lave {

// Used again from row to row; a thread has its own.
class Posterior {
public:
    // Candidate `rank` of position p has the probability probabilities[p * width + rank]. False
    // where no filling was found; else `of` gives the marginals.
    bool compute(const Canvas& row, const float* probabilities, std::int64_t width);

    double of(std::int64_t position, std::int64_t rank) const {
        return marginals_[static_cast<std::size_t>(position * width_ + rank)];
    }

private:
    struct Edge {
        std::int32_t source, target, rank;
        double probability;
    };
    struct Layer {
        std::vector<double> mass;
        std::vector<Edge> edges;
    };
    static constexpr std::size_t kMaxStates = 64;
    static constexpr double kLeastShare = 1e-3;
    static constexpr std::int32_t kUnfinishable = -1;

    void expand(const Canvas& row, std::int64_t position, const float* probabilities, Layer& layer);
    bool prune(Layer& layer);
    bool go_back(const Canvas& row);
    std::int32_t index_of(State state, TokenAutomaton& tokens, std::int64_t left);

    std::int64_t width_ = 0;
    std::vector<double> marginals_;
    std::vector<Layer> layers_;
    std::vector<State> states_, following_states_;
    std::vector<double> mass_, following_mass_;
    // By state + 2, so that the end of text has a place: the epoch it was reached in, its index.
    std::vector<std::pair<std::uint32_t, std::int32_t>> reached_;
    std::uint32_t epoch_ = 0;
    std::vector<std::int32_t> order_, place_;
    std::vector<double> behind_, before_, weight_;
};

}  // namespace lave
