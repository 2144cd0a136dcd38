#include "token_automaton.hpp"

#include <algorithm>
#include <utility>

namespace lave {

TokenAutomaton::TokenAutomaton(std::shared_ptr<Automaton> automaton_,
                               std::shared_ptr<const Vocabulary> vocabulary_)
    : automaton(std::move(automaton_)),
      vocabulary(std::move(vocabulary_)),
      spells_every_symbol_(vocabulary->spells_every_byte()) {
    const TokenClasses& classes = automaton->rules().token_classes();
    auto represent = [&](Token token) {
        const std::int32_t of = classes.class_of(token, vocabulary->bytes_of(token).count > 0);
        for (std::int32_t set = 0; set < classes.set_count(); ++set) {
            if (!classes.reads(set, of)) continue;
            representatives_.emplace(of, token);
            return;
        }
    };
    for (const auto& [token, sets] : classes.listed()) {
        if (0 <= token && token < vocabulary->size() && !vocabulary->is_end(token)) {
            represent(token);
        }
    }
    for (Token token = 0; classes.set_count() > 0 && token < vocabulary->size(); ++token) {
        if (vocabulary->bytes_of(token).count == 0 || classes.is_listed(token)) continue;
        represent(token);
        break;
    }
    for (std::int32_t set = 0; set < classes.set_count(); ++set) {
        spells_every_symbol_ = spells_every_symbol_ && token_of_set(set) != kNoToken;
    }
}

// As its bytes, and as a whole.
State TokenAutomaton::advance_both_ways(State state, Token token) {
    const Bytes data = vocabulary->bytes_of(token);
    const State text = data.count == 0 ? kDead : automaton->run(state, data.first, data.count);
    const State whole = automaton->step_token(
        state, automaton->rules().token_classes().class_of(token, data.count > 0));
    return automaton->end_token(automaton->union_of(text, whole));
}

Token TokenAutomaton::token_of_set(std::int32_t set) const {
    Token lowest = kNoToken;
    for (const auto& [of, token] : representatives_) {
        if (!automaton->rules().token_classes().reads(set, of)) continue;
        if (lowest == kNoToken || token < lowest) lowest = token;
    }
    return lowest;
}

// The state behind a byte, or behind a token of a set; kDead where the vocabulary has none.
State TokenAutomaton::step_symbol(State state, std::int32_t symbol) {
    if (symbol >= 0) return automaton->step(state, static_cast<std::uint8_t>(symbol));
    const Token token = token_of_set(-1 - symbol);
    if (token == kNoToken) return kDead;
    const bool is_text = vocabulary->bytes_of(token).count > 0;
    return automaton->step_token(state,
                                 automaton->rules().token_classes().class_of(token, is_text));
}

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
// symbol of another's is the rest of it, so all states along the way are counted at once, from the
// end: a state costs a walk of at most 32 bytes down the trie, once.
std::int32_t TokenAutomaton::tokens_to_finish(State state) {
    if (state == kEnded) return 0;
    const std::int32_t known = finish_count(state);
    if (known != kUnknown) return known >= kUnspellable ? kUnspellable : known + 1;

    if (!automaton->members(state).empty()) {
        std::int32_t fewest = kUnspellable;
        for (State member : std::vector<State>(automaton->members(state))) {
            fewest = std::min(fewest, tokens_to_finish(member));
        }
        finish_count(state) = fewest >= kUnspellable ? kUnspellable : fewest - 1;
        return fewest;
    }

    // The states along the completion: those to count, then as many as a token can reach over.
    std::vector<State> way{state};
    std::vector<std::int32_t> symbols;
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
        const std::int32_t symbol = automaton->first_symbol(here);
        const State following = step_symbol(here, symbol);
        if (following == kDead) break;  // no token for it
        symbols.push_back(symbol);
        way.push_back(following);
    }
    for (std::size_t at = to_count; at-- > 0;) {
        std::int32_t fewest = automaton->accepting(way[at]) ? 0 : kUnspellable;
        if (at < symbols.size() && symbols[at] < 0) {
            fewest = std::min(fewest, finish_count(way[at + 1]) + 1);
        }
        std::int32_t node = Arena::kRoot;
        const std::size_t end =
            std::min(symbols.size(), at + vocabulary->longest_in_spelling());
        for (std::size_t next = at; next < end && symbols[next] >= 0; ++next) {
            node = vocabulary->arena->child(node, static_cast<std::uint8_t>(symbols[next]));
            if (node < 0) break;
            if (vocabulary->token_at(node) == kNoToken) continue;
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
    if (spells_every_symbol_ && bytes + 1 <= left) return true;
    return tokens_to_finish(state) <= left;
}

std::optional<std::vector<Token>> TokenAutomaton::shortest_ending(State state) {
    if (state == kEnded) return std::vector<Token>();
    if (automaton->members(state).empty()) return ending(state);
    std::optional<std::vector<Token>> best;
    for (State member : std::vector<State>(automaton->members(state))) {
        const std::optional<std::vector<Token>> other = ending(member);
        if (!other) continue;
        if (!best || other->size() < best->size() ||
            (other->size() == best->size() && *other < *best)) {
            best = other;
        }
    }
    return best;
}

// Bytes are spelled; where a token has to be read as a whole, another spelling begins.
std::optional<std::vector<Token>> TokenAutomaton::ending(State state) {
    std::optional<std::vector<Token>> tokens{std::in_place};
    std::string bytes;
    while (!automaton->accepting(state)) {
        const std::int32_t symbol = automaton->first_symbol(state);
        if (symbol >= 0) {
            bytes.push_back(static_cast<char>(symbol));
        } else {
            append_spelling(bytes, tokens);
            bytes.clear();
            if (!tokens || token_of_set(-1 - symbol) == kNoToken) return std::nullopt;
            tokens->push_back(token_of_set(-1 - symbol));
        }
        state = step_symbol(state, symbol);
    }
    append_spelling(bytes, tokens);
    return tokens;
}

void TokenAutomaton::append_spelling(const std::string& bytes,
                                     std::optional<std::vector<Token>>& tokens) const {
    const auto spelling = vocabulary->spelling(bytes);
    if (!tokens || !spelling) {
        tokens = std::nullopt;
        return;
    }
    tokens->insert(tokens->end(), spelling->begin(), spelling->end());
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
        auto offer = [&](Token token, State following) {
            if (following == kDead ||
                std::find(reached.begin(), reached.end(), following) != reached.end()) {
                return;
            }
            reached.push_back(following);
            fillers_.push_back(token);
        };
        const bool reads_tokens = automaton->rules().reads_tokens();
        std::vector<char> seen(automaton->rules().class_count(), 0);
        for (int byte = 0; byte < 256; ++byte) {
            const Token token = vocabulary->byte_token(static_cast<std::uint8_t>(byte));
            if (token == kNoToken) continue;
            if (reads_tokens) {
                offer(token, advance_both_ways(state, token));
                continue;
            }
            char& class_seen = seen[automaton->rules().class_of(static_cast<std::uint8_t>(byte))];
            if (class_seen) continue;
            class_seen = 1;
            offer(token, automaton->step(state, static_cast<std::uint8_t>(byte)));
        }
        for (const auto& [of, token] : representatives_) {
            offer(token, advance_both_ways(state, token));
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
    const auto& nodes = vocabulary->arena->nodes();
    std::vector<State> states(vocabulary->arena->max_depth() + 2);  // by depth, along the path
    states[0] = state;
    for (std::size_t at = 0; at < nodes.size();) {
        const Arena::Node& node = nodes[at];
        const State following = automaton->step(states[node.depth], node.byte);
        if (following == kDead) {
            at = node.next;
            continue;
        }
        states[node.depth + 1] = following;
        const bool outlives = automaton->end_token(following) != kDead;
        Token token = outlives ? vocabulary->token_at(static_cast<std::int32_t>(at)) : kNoToken;
        for (; token != kNoToken; token = vocabulary->same_bytes(token)) allow(token);
        ++at;
    }
    if (!representatives_.empty()) allow_whole(state, mask);
    return mask;
}

void TokenAutomaton::allow_whole(State state, std::vector<std::uint32_t>& mask) {
    const TokenClasses& classes = automaton->rules().token_classes();
    std::vector<char> allowed(static_cast<std::size_t>(classes.count()));
    for (const auto& [of, token] : representatives_) {
        allowed[of] = automaton->end_token(automaton->step_token(state, of)) != kDead;
    }
    for (Token token = 0; token < vocabulary->size(); ++token) {
        if (vocabulary->is_end(token)) continue;
        const bool is_text = vocabulary->bytes_of(token).count > 0;
        if (allowed[classes.class_of(token, is_text)]) {
            mask[token >> 5] |= std::uint32_t{1} << (token & 31);
        }
    }
}

}  // namespace lave
