#include "posterior.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace lave {

bool Posterior::compute(const Canvas& row, const float* probabilities, std::int64_t width) {
    width_ = width;
    marginals_.assign(static_cast<std::size_t>(row.length * width), 0.0);
    states_.assign(1, row.state);
    mass_.assign(1, 1.0);
    layers_.resize(static_cast<std::size_t>(row.length - row.first));
    for (std::int64_t position = row.first; position < row.length; ++position) {
        Layer& layer = layers_[static_cast<std::size_t>(position - row.first)];
        expand(row, position, probabilities, layer);
        if (!prune(layer)) return false;
    }
    return go_back(row);
}

void Posterior::expand(const Canvas& row, std::int64_t position, const float* probabilities,
                       Layer& layer) {
    TokenAutomaton& tokens = *row.tokens;
    const bool masked = row.canvas[position] == kMasked;
    const Candidates listed =
        masked ? row.candidates[position] : Candidates{row.canvas + position, 1};
    const std::int64_t left =
        std::max<std::int64_t>(row.tokens_left - (position + 1 - row.first), 0);
    ++epoch_;
    following_states_.clear();
    following_mass_.clear();
    layer.mass = mass_;
    layer.edges.clear();
    double heaviest = 0.0;
    for (std::size_t source = 0; source < states_.size(); ++source) {
        for (std::int64_t rank = 0; rank < listed.count; ++rank) {
            const double probability =
                masked ? static_cast<double>(probabilities[position * width_ + rank]) : 1.0;
            const double mass = mass_[source] * probability;
            if (mass < kLeastShare * heaviest) continue;
            const State reached = tokens.advance(states_[source], listed.tokens[rank]);
            if (reached == kDead) continue;
            const std::int32_t target = index_of(reached, tokens, left);
            if (target == kUnfinishable) continue;
            heaviest = std::max(heaviest, mass);
            following_mass_[target] += mass;
            layer.edges.push_back({static_cast<std::int32_t>(source), target,
                                   static_cast<std::int32_t>(rank), probability});
        }
    }
}

// Its place among the states of the layer that is being made, at first the next one.
std::int32_t Posterior::index_of(State state, TokenAutomaton& tokens, std::int64_t left) {
    const auto slot = static_cast<std::size_t>(state + 2);
    if (slot >= reached_.size()) reached_.resize(std::max(slot + 1, 2 * reached_.size()), {0, 0});
    auto& [epoch, index] = reached_[slot];
    if (epoch != epoch_) {
        epoch = epoch_;
        if (!tokens.finishes_within(state, left)) return index = kUnfinishable;
        index = static_cast<std::int32_t>(following_states_.size());
        following_states_.push_back(state);
        following_mass_.push_back(0.0);
    }
    return index;
}

// The states of the greatest mass go on, scaled against underflow. False where none is left.
bool Posterior::prune(Layer& layer) {
    const std::size_t count = following_states_.size();
    double most = 0.0;
    for (double mass : following_mass_) most = std::max(most, mass);
    if (most == 0.0) return false;
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0);
    const auto kept_end = order_.begin() + static_cast<std::ptrdiff_t>(std::min(count, kMaxStates));
    std::partial_sort(order_.begin(), kept_end, order_.end(), [this](std::int32_t a, std::int32_t b) {
        const double first = following_mass_[a], second = following_mass_[b];
        return first > second || (first == second && a < b);
    });
    order_.erase(kept_end, order_.end());
    place_.assign(count, -1);
    states_.clear();
    mass_.clear();
    for (std::int32_t at : order_) {
        place_[at] = static_cast<std::int32_t>(states_.size());
        states_.push_back(following_states_[at]);
        mass_.push_back(following_mass_[at] / most);
    }
    std::size_t kept = 0;
    for (Edge edge : layer.edges) {
        edge.target = place_[edge.target];
        if (edge.target >= 0) layer.edges[kept++] = edge;
    }
    layer.edges.resize(kept);
    return true;
}

// False where all has come to nothing, as the numbers are too small.
bool Posterior::go_back(const Canvas& row) {
    behind_.assign(states_.size(), 1.0);
    for (std::int64_t position = row.length - 1; position >= row.first; --position) {
        const Layer& layer = layers_[static_cast<std::size_t>(position - row.first)];
        before_.assign(layer.mass.size(), 0.0);
        weight_.assign(static_cast<std::size_t>(std::max<std::int64_t>(width_, 1)), 0.0);
        for (const Edge& edge : layer.edges) {
            const double onward = edge.probability * behind_[edge.target];
            before_[edge.source] += onward;
            weight_[edge.rank] += layer.mass[edge.source] * onward;
        }
        if (row.canvas[position] == kMasked) {
            double total = 0.0;
            for (std::int64_t rank = 0; rank < row.candidates[position].count; ++rank) {
                total += weight_[rank];
            }
            if (total == 0.0) return false;
            for (std::int64_t rank = 0; rank < row.candidates[position].count; ++rank) {
                marginals_[static_cast<std::size_t>(position * width_ + rank)] =
                    weight_[rank] / total;
            }
        }
        double most = 0.0;
        for (double value : before_) most = std::max(most, value);
        if (most == 0.0) return false;
        behind_.resize(before_.size());
        for (std::size_t at = 0; at < before_.size(); ++at) behind_[at] = before_[at] / most;
    }
    return true;
}

}  // namespace lave
