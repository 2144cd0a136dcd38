// States of a grammar: an Earley parser (Earley 1970) whose item sets are interned.
//
// The algorithm, and the reasons for it, are those of lave_plugin/grammar/automaton.py, which is
// the reference: both must agree on every state.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "components.hpp"
#include "interner.hpp"
#include "item.hpp"
#include "rules.hpp"

namespace lave {

using State = std::int32_t;
constexpr State kDead = -1;

struct StatesExhausted : std::runtime_error {
    StatesExhausted()
        : std::runtime_error("the grammar has unfolded as many states as it may; make room") {}
};

// A state costs one row of `transitions_`: a column for each class of bytes (and of tokens, and one
// for the end of a token, where the grammar reads or counts them) that the grammar tells apart. A dense row makes a step two loads, and with classes it is short (free JSON has
// 45 columns, a C-like grammar 70, where 256 would be a kilobyte a state), so there is no second form
// of row for rare states to switch from.
//
// States are numbered from 0; `flush` drops them all and numbers anew. What a caller keeps is an id,
// the state plus `first_id`, which rises with every flush: an old id is never taken for a new state.
//
// Not thread-safe: whoever shares an automaton between threads holds `mutex` while using it. The
// functions that take a state trust it to be kDead or an id below `state_count`.
class Automaton {
public:
    // Above `max_states` there `is_full`. Four times that many are never unfolded: StatesExhausted.
    Automaton(Rules rules, std::int64_t max_states);

    std::mutex mutex;

    bool is_full() const { return is_broken_ || state_count() > max_states_; }
    // An exception out of the middle of an unfolding, for want of memory, leaves states that only
    // a flush can mend.
    bool is_broken() const { return is_broken_; }
    void flush();
    std::int64_t generation() const { return generation_; }
    std::int64_t first_id() const { return first_id_; }

    State start() const { return start_; }
    State state_count() const { return static_cast<State>(known_.size()); }

    State step(State state, std::uint8_t byte) {
        if (state == kDead) return kDead;
        const int column = rules_.class_of(byte);
        const State target = transitions_[row(state) + column];
        return target == kUnknown ? unfold(state, byte) : target;
    }

    // The state behind a token that is read as a whole, by its class.
    State step_token(State state, std::int32_t token_class) {
        if (state == kDead) return kDead;
        const State target = transitions_[row(state) + rules_.class_count() + token_class];
        return target == kUnknown ? unfold_token(state, token_class) : target;
    }

    // The state between the token that has led to `state` and the next one.
    State end_token(State state) {
        if (state == kDead || !rules_.counts_tokens()) return state;
        const State target = transitions_[row(state) + end_of_token_];
        return target == kUnknown ? unfold_end_of_token(state) : target;
    }

    // The state from which goes on what goes on from either; it keeps them apart as its members.
    State union_of(State one, State other) {
        if (one == other || other == kDead) return one;
        if (one == kDead) return other;
        return add_union({one, other});
    }
    // The states that a union is of; empty for another state.
    const std::vector<State>& members(State state) const {
        static const std::vector<State> none;
        if (members_.empty()) return none;
        const auto found = members_.find(state);
        return found == members_.end() ? none : found->second;
    }

    State run(State state, const std::uint8_t* bytes, std::size_t count) {
        for (std::size_t at = 0; at < count && state != kDead; ++at) state = step(state, bytes[at]);
        return state;
    }

    bool accepting(State state) const { return state != kDead && known_[state].accepting; }
    bool can_continue(State state) const { return state != kDead && known_[state].can_continue; }

    // The next two take no dead state. A token read as a whole counts as one byte.
    std::int64_t shortest_length(State state) const { return known_[state].shortest; }
    // What the shortest completion begins with: a byte, or -1 - the index of a token set. The state
    // must not be accepting.
    std::int32_t first_symbol(State state) {
        if (known_[state].first_symbol == kUnchosen) choose_first_symbol(state);
        return known_[state].first_symbol;
    }

    // The only byte that may follow, kNoByte where there are more, none, or the text may end.
    static constexpr int kNoByte = -1;
    int forced_byte(State state) {
        std::int16_t& known = known_[state].forced_byte;
        if (known == kUnknownByte) known = static_cast<std::int16_t>(find_forced_byte(state));
        return known;
    }

    std::string allowed_bytes(State state) const;
    std::string forced_bytes(State state, std::int64_t limit);

    const Rules& rules() const { return rules_; }
    // About how much memory the states take.
    std::size_t bytes() const;

private:
    static constexpr State kUnknown = -2;
    static constexpr std::int16_t kUnknownByte = -2;
    static constexpr std::int32_t kEndOfText = 0;  // the continuation of the root rule

    static constexpr std::int32_t kUnchosen = 256;  // no symbol

    struct Known {
        std::int64_t shortest;
        std::int32_t first_symbol;  // kUnchosen until asked for
        std::int16_t forced_byte;   // kUnknownByte until asked for
        bool accepting, can_continue;
    };

    // What a rule with a budget may still read; kNoBudget where it isn't counted.
    struct Budget {
        std::int32_t behind;  // the continuation of the rule
        std::int32_t tokens;  // the one at hand included
        std::int32_t characters;
    };

    std::size_t row(State state) const {
        return static_cast<std::size_t>(state) * static_cast<std::size_t>(columns_);
    }
    // The items from which something can be read; the first word of a future is `accepting`.
    Words items(State state) const {
        const Words future = futures_[state];
        return {future.first + 1, future.count - 1};
    }
    std::int64_t to_end(std::int32_t node, std::int32_t continuation) const;

    void begin();
    State unfold(State state, std::uint8_t byte);
    State unfold_token(State state, std::int32_t token_class);
    State unfold_end_of_token(State state);
    State scan(State state, std::size_t column);
    State add_union(std::vector<State> states);
    State state_of_kernel();
    State state_of_future();
    State add_state();
    void close();
    void predict_and_complete(Item item);
    void resolve();
    std::int32_t intern_alone(std::int32_t rule);
    void intern_loop(const std::int32_t* rules, std::size_t count);
    Item settle(Item item) const;
    Item begin_budget(Item item);
    std::int32_t budgeted(std::int32_t rule, std::int32_t continuation);
    std::int32_t with_budget(Budget budget);
    // Of a continuation; null where it has none.
    const Budget* budget_of(std::int32_t continuation) const {
        if (budgets_.empty()) return nullptr;
        const auto found = budgets_.find(continuation);
        return found == budgets_.end() ? nullptr : &found->second;
    }
    bool may_read(std::int32_t continuation, const ByteEdge& edge, int byte) const;
    std::int32_t behind(std::int32_t continuation, int byte);
    bool can_read(Item item) const;
    bool waits_for_end_of_text(std::int32_t continuation) const;
    void choose_first_symbol(State state);
    int find_forced_byte(State state) const;

    Rules rules_;
    std::int64_t max_states_;
    std::int64_t generation_ = 0, first_id_ = 0;
    bool is_broken_ = false;
    State start_ = kDead;
    // Columns of a row: the classes of bytes, those of tokens, the end of a token.
    std::int32_t columns_, end_of_token_;

    // Continuations by id: the items that wait, and the fewest bytes from there to the end of text.
    Interner continuations_;
    std::vector<std::int64_t> remaining_;
    // Continuations in a loop, by their system of equations: the id of its first rule.
    Interner systems_;
    std::vector<std::int32_t> first_of_system_;
    // With a budget: by the id of the continuation, and the other way round.
    std::unordered_map<std::int32_t, Budget> budgets_;
    std::map<std::array<std::int32_t, 3>, std::int32_t> with_budget_;

    // Interned twice: by the items that a byte has led to, and by those that can read a byte.
    Interner kernels_;
    std::vector<State> state_of_kernel_;
    Interner futures_;  // ids are the states
    std::vector<Known> known_;
    std::vector<State> transitions_;

    // Unions, by their members in order.
    Interner unions_;
    std::vector<State> state_of_union_;
    std::unordered_map<State, std::vector<State>> members_;

    // Scratch of one unfolding.
    std::vector<std::uint64_t> kernel_, future_, equations_;
    WordSet closed_;
    std::vector<std::int32_t> predicted_;             // rules predicted here
    std::vector<std::vector<Item>> waiting_;          // by place in predicted_: who waits for it
    std::vector<std::int32_t> place_of_rule_;         // -1: not predicted here
    std::vector<std::int32_t> resolved_;              // by place: the continuation
    std::vector<std::vector<std::int32_t>> depends_;  // by place
    std::vector<std::int32_t> in_component_;          // by place: its component
    Components components_;
    bool accepting_ = false;
};

}  // namespace lave
