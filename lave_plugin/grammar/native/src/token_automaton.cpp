#include "token_automaton.hpp"

#include <algorithm>
#include <utility>

namespace lave {

void TokenAutomaton::forget_flushed() {
    if (generation_ == automaton->generation()) return;
    finish_count_ = {};
    filler_spans_ = {};
    fillers_ = {};
    masks_.clear();
    mask_order_.clear();
    generation_ = automaton->generation();
}

std::int32_t& TokenAutomaton::finish_count(State state) {
    forget_flushed();
    if (static_cast<std::size_t>(state) >= finish_count_.size()) {
        finish_count_.resize(std::max<std::size_t>(automaton->state_count(), 64), kUnknown);
    }
    return finish_count_[state];
}

// The fewest tokens that spell the shortest completion. The completion of a state behind the first
// byte of another's is the rest of it, so all states along the way are counted at once, from the
// end: a state costs a walk of at most 32 bytes down the trie, once.
std::int32_t TokenAutomaton::tokens_to_finish(State state) {
    if (state == kEnded) return 0;
    const std::int32_t known = finish_count(state);
    if (known != kUnknown) return known >= kUnspellable ? kUnspellable : known + 1;

    // The states along the completion: those to count, then as many as a token can reach over.
    std::vector<State> way{state};
    std::vector<std::uint8_t> bytes;
    std::size_t to_count = 0;
    int over = 0;
    while (over < vocabulary->longest_in_spelling() + 1) {
        const State here = way.back();
        if (over == 0 && finish_count(here) == kUnknown) {
            ++to_count;
        } else {
            ++over;
        }
        if (automaton->accepting(here)) break;
        bytes.push_back(automaton->first_byte(here));
        way.push_back(automaton->step(here, bytes.back()));
    }
    for (std::size_t at = to_count; at-- > 0;) {
        std::int32_t fewest = automaton->accepting(way[at]) ? 0 : kUnspellable;
        std::int32_t node = Vocabulary::kRoot;
        const std::size_t end =
            std::min(bytes.size(), at + vocabulary->longest_in_spelling());
        for (std::size_t next = at; next < end; ++next) {
            node = vocabulary->child(node, bytes[next]);
            if (node < 0) break;
            if (vocabulary->nodes()[node].token == kNoToken) continue;
            fewest = std::min(fewest, finish_count(way[next + 1]) + 1);
        }
        finish_count(way[at]) = fewest;
    }
    const std::int32_t count = finish_count(state);
    return count >= kUnspellable ? kUnspellable : count + 1;
}

bool TokenAutomaton::finishes_within(State state, std::int64_t left) {
    if (state == kEnded) return left >= 0;
    const std::int64_t bytes = automaton->shortest_length(state);
    // No token is longer than this, so fewer tokens than that never do.
    const std::int64_t longest = std::max(vocabulary->longest_in_spelling(), 1);
    if ((bytes + longest - 1) / longest + 1 > left) return false;
    if (vocabulary->spells_every_byte() && bytes + 1 <= left) return true;
    return tokens_to_finish(state) <= left;
}

std::optional<std::vector<Token>> TokenAutomaton::shortest_ending(State state) {
    std::string bytes;
    if (state == kEnded) return std::vector<Token>();
    for (State here = state; !automaton->accepting(here);) {
        const std::uint8_t byte = automaton->first_byte(here);
        bytes.push_back(static_cast<char>(byte));
        here = automaton->step(here, byte);
    }
    return vocabulary->spelling(bytes);
}

TokenAutomaton::Tokens TokenAutomaton::fillers(State state) {
    if (state == kEnded) {
        return {vocabulary->end_tokens().data(), 1};
    }
    if (state == kDead) return {nullptr, 0};
    forget_flushed();
    if (static_cast<std::size_t>(state) >= filler_spans_.size()) {
        filler_spans_.resize(std::max<std::size_t>(automaton->state_count(), 64));
    }
    if (filler_spans_[state].count == kUnknown) {
        const std::size_t from = fillers_.size();
        if (automaton->accepting(state)) fillers_.push_back(vocabulary->end_token());
        std::vector<State> reached;
        std::vector<char> seen(automaton->rules().class_count(), 0);
        for (int byte = 0; byte < 256; ++byte) {
            const Token token = vocabulary->byte_token(static_cast<std::uint8_t>(byte));
            if (token == kNoToken) continue;
            char& class_seen = seen[automaton->rules().class_of(static_cast<std::uint8_t>(byte))];
            if (class_seen) continue;
            class_seen = 1;
            const State following = automaton->step(state, static_cast<std::uint8_t>(byte));
            if (following == kDead ||
                std::find(reached.begin(), reached.end(), following) != reached.end()) {
                continue;
            }
            reached.push_back(following);
            fillers_.push_back(token);
        }
        filler_spans_[state] = {from, static_cast<std::int32_t>(fillers_.size() - from)};
    }
    const Span span = filler_spans_[state];
    return {fillers_.data() + span.from, static_cast<std::size_t>(span.count)};
}

const std::vector<std::uint32_t>& TokenAutomaton::allowed_tokens(State state) {
    forget_flushed();
    const auto known = masks_.find(state);
    if (known != masks_.end()) return known->second;
    std::vector<std::uint32_t> mask = walk_trie(state);
    if (masks_.size() >= kMasksKept) {
        masks_.erase(mask_order_.front());
        mask_order_.pop_front();
    }
    mask_order_.push_back(state);
    return masks_[state] = std::move(mask);
}

std::vector<std::uint32_t> TokenAutomaton::walk_trie(State state) {
    std::vector<std::uint32_t> mask((vocabulary->size() + 31) / 32, 0);
    auto allow = [&mask](Token token) { mask[token >> 5] |= std::uint32_t{1} << (token & 31); };
    if (is_complete(state)) {
        for (Token token : vocabulary->end_tokens()) {
            if (token < vocabulary->size()) allow(token);
        }
    }
    if (state < 0) return mask;
    const auto& nodes = vocabulary->nodes();
    std::vector<State> states(vocabulary->max_depth() + 2);  // by depth, along the path
    states[0] = state;
    for (std::size_t at = 0; at < nodes.size();) {
        const Vocabulary::Node& node = nodes[at];
        const State following = automaton->step(states[node.depth], node.byte);
        if (following == kDead) {
            at = node.next;
            continue;
        }
        states[node.depth + 1] = following;
        for (Token token = node.token; token != kNoToken; token = vocabulary->same_bytes(token)) {
            allow(token);
        }
        ++at;
    }
    return mask;
}

}  // namespace lave
