// The grammar's states, stepped by tokens instead of bytes, with the end of text.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "automaton.hpp"
#include "vocabulary.hpp"

namespace lave {

constexpr State kEnded = -2;  // behind an end token: only more end tokens may follow

// Whoever uses it holds `automaton->mutex`. States are kDead, kEnded or an id of the automaton's.
class TokenAutomaton {
public:
    TokenAutomaton(std::shared_ptr<Automaton> automaton,
                   std::shared_ptr<const Vocabulary> vocabulary);

    const std::shared_ptr<Automaton> automaton;
    const std::shared_ptr<const Vocabulary> vocabulary;

    // The state before any text.
    State start() { return automaton->end_token(automaton->start()); }

    // Walks the token's bytes: a token has about four, and a step is two loads from small dense
    // rows, which are the cache. A table of (state, token) would take a hash and a load from far
    // away instead, and would grow without end.
    State advance(State state, std::int64_t token) {
        if (token < 0 || token >= vocabulary->size()) return kDead;
        const auto id = static_cast<Token>(token);
        const Bytes data = vocabulary->bytes_of(id);
        if (data.count == 0 && vocabulary->is_end(id)) {
            return is_complete(state) ? kEnded : kDead;
        }
        if (state < 0) return kDead;
        if (automaton->rules().reads_tokens()) return advance_both_ways(state, id);
        return data.count == 0 ? kDead : automaton->run(state, data.first, data.count);
    }

    bool is_complete(State state) const {
        return state == kEnded || (state >= 0 && automaton->accepting(state));
    }

    // Tokens that suffice to finish, end token included; the state must not be kDead.
    std::int32_t tokens_to_finish(State state);

    // Whether `tokens_to_finish` is at most `left`, without spelling where bounds decide it.
    bool finishes_within(State state, std::int64_t left);

    // Whether nothing but the end of text may follow.
    bool only_end(State state) const {
        return is_complete(state) && (state < 0 || !automaton->can_continue(state));
    }
    bool is_forced(State state) const {
        return state >= 0 && automaton->forced_byte(state) != Automaton::kNoByte;
    }
    // The bytes that are the only way on, as many as the reference looks at.
    std::string forced_bytes(State state) {
        return state < 0 ? std::string() : automaton->forced_bytes(state, kForcedLimit);
    }

    // Tokens that spell the shortest completion; nothing where the vocabulary can't.
    std::optional<std::vector<Token>> shortest_ending(State state);

    struct Tokens {
        const Token* first;
        std::size_t count;
    };
    // The end token where the text may end, one single-byte token for each state a byte away, and of
    // the tokens that the grammar reads as a whole one of each kind that it tells apart. Valid until the next call of this function.
    Tokens fillers(State state);

    // Bit t & 31 of word t >> 5 says whether token t may follow.
    const std::vector<std::uint32_t>& allowed_tokens(State state);

private:
    static constexpr std::int32_t kUnknown = -1;
    static constexpr std::int64_t kForcedLimit = 64;
    static constexpr std::size_t kMasksKept = 256;  // 19 kB each over 150,000 tokens

    void forget_flushed();
    State advance_both_ways(State state, Token token);
    Token token_of_set(std::int32_t set) const;
    State step_symbol(State state, std::int32_t symbol);
    std::int32_t& finish_count(State state);
    std::optional<std::vector<Token>> ending(State state);
    void append_spelling(const std::string& bytes,
                         std::optional<std::vector<Token>>& tokens) const;
    std::vector<std::uint32_t> walk_trie(State state);
    void allow_whole(State state, std::vector<std::uint32_t>& mask);

    // For each class of tokens that an edge reads its lowest token.
    std::map<std::int32_t, Token> representatives_;
    bool spells_every_symbol_;

    std::int64_t generation_ = 0;  // of the states that the tables below are about
    std::vector<std::int32_t> finish_count_;  // by state: tokens without the end token
    struct Span {
        std::size_t from = 0;
        std::int32_t count = kUnknown;
    };
    std::vector<Span> filler_spans_;  // by state
    std::vector<Token> fillers_;
    std::unordered_map<State, std::vector<std::uint32_t>> masks_;
    std::deque<State> mask_order_;  // oldest first
};

}  // namespace lave
