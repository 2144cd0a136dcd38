#include "search.hpp"

#include <algorithm>
#include <stdexcept>

#include "threads.hpp"

namespace lave {

Verdict Searcher::find_witness(const Canvas& row) {
    row_ = &row;
    last_ = row.length - 1;
    while (last_ >= row.first && row.canvas[last_] == kMasked) --last_;
    // No text is as long as this; so nothing below can overflow.
    tokens_left_ = std::max(row.tokens_left, -kUnreachable);
    nodes_.clear();
    open_.clear();
    pushed_ = 0;
    entered_.clear();
    try {
        return search();
    } catch (const StatesExhausted&) {
        return Verdict::kUndecided;  // a budget, like that of nodes
    }
}

Verdict Searcher::search() {
    std::int64_t position = row_->first;
    State state = row_->state;
    pass_committed(position, state);
    if (state == kDead) return Verdict::kRefuted;
    std::int32_t node = enter(position, state, kNone, kMasked, 0);
    while (nodes_[node].position <= last_) {
        std::int32_t following = choose(node);
        if (following == kNone) {
            if (open_.empty()) return Verdict::kRefuted;
            if (static_cast<std::int64_t>(nodes_.size()) >= row_->budget) {
                return Verdict::kUndecided;
            }
            following = open_.front().node;
            std::pop_heap(open_.begin(), open_.end());
            open_.pop_back();
        }
        node = following;
    }
    for (; nodes_[node].before != kNone; node = nodes_[node].before) {
        row_->witness[nodes_[nodes_[node].before].position] = nodes_[node].token;
    }
    return Verdict::kAlive;
}

// Follows the next choice that fits; what the node has left waits in `open_`.
std::int32_t Searcher::choose(std::int32_t index) {
    std::int32_t following = kNone;
    {
        const TokenAutomaton::Tokens tokens = choices(nodes_[index]);
        Node node = nodes_[index];
        while (following == kNone && node.at < static_cast<std::int64_t>(tokens.count)) {
            const std::int64_t cost = cost_of_next(node);
            const Token token = tokens.first[node.at++];
            std::int64_t position = node.position + 1;
            State state = advance(node.position, node.state, token);
            pass_committed(position, state);
            if (state != kDead) following = enter(position, state, index, token, cost);
        }
        nodes_[index].at = node.at;
    }
    Node& node = nodes_[index];
    if (following == kNone) {
        if (node.on_fillers) return kNone;
        node.on_fillers = true;
        node.at = 0;
    }
    open_.push_back({priority(node), ++pushed_, index});
    std::push_heap(open_.begin(), open_.end());
    return following;
}

// Of the way with the node's next choice. One filler ranks as another, behind all candidates.
std::int64_t Searcher::cost_of_next(const Node& node) const {
    return node.cost + (node.on_fillers ? row_->candidates[node.position].count : node.at);
}

std::int64_t Searcher::priority(const Node& node) const {
    const std::int64_t left =
        node.state == kEnded ? 0 : row_->tokens->automaton->shortest_length(node.state);
    return cost_of_next(node) - node.position + kCompletion * left;
}

// kNone where this position and state have been entered before.
std::int32_t Searcher::enter(std::int64_t position, State state, std::int32_t before, Token token,
                             std::int64_t cost) {
    if (!entered_.insert(make_item(static_cast<std::int32_t>(position), state))) return kNone;
    nodes_.push_back({position, state, before, token, cost, 0, false});
    return static_cast<std::int32_t>(nodes_.size() - 1);
}

State Searcher::advance(std::int64_t position, State state, Token token) {
    const State following = row_->tokens->advance(state, token);
    // Behind the budget's end only end tokens stand, and they cost nothing.
    const std::int64_t left =
        std::max<std::int64_t>(0, tokens_left_ - (position + 1 - row_->first));
    if (following == kDead || !row_->tokens->finishes_within(following, left)) return kDead;
    return following;
}

// On to the next masked position, or to the one behind the last committed.
void Searcher::pass_committed(std::int64_t& position, State& state) {
    for (; state != kDead && position <= last_ && row_->canvas[position] != kMasked; ++position) {
        state = advance(position, state, row_->canvas[position]);
    }
}

TokenAutomaton::Tokens Searcher::choices(const Node& node) {
    if (!node.on_fillers) {
        const Candidates& listed = row_->candidates[node.position];
        return {listed.tokens, static_cast<std::size_t>(listed.count)};
    }
    // Asked for only now: most searches never need them, and they unfold states.
    if (row_->fillers) return row_->tokens->fillers(node.state);
    return {row_->tokens->vocabulary->end_tokens().data(), 1};
}

void find_witnesses(const std::vector<Canvas>& rows, Verdict* verdicts, unsigned threads) {
    std::vector<Automaton*> automata;
    for (const Canvas& row : rows) automata.push_back(row.tokens->automaton.get());
    for_each_automaton(automata, threads, [&](const std::vector<std::size_t>& group) {
        Searcher searcher;
        for (std::size_t row : group) {
            if (rows[row].generation != rows[row].tokens->automaton->generation()) {
                throw std::out_of_range("the states were flushed during the call");
            }
            verdicts[row] = searcher.find_witness(rows[row]);
        }
    });
}

}  // namespace lave
