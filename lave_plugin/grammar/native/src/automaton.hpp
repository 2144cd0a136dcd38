// States of a grammar: an Earley parser (Earley 1970) whose item sets are interned.
//
// The algorithm, and the reasons for it, are those of lave_plugin/grammar/automaton.py, which is
// the reference: both must agree on every state.
#pragma once

#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
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

// A state costs one row of `transitions_`: a column for each class of bytes that the grammar tells
// apart. A dense row makes a step two loads, and with classes it is short (free JSON has
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

    State run(State state, const std::uint8_t* bytes, std::size_t count) {
        for (std::size_t at = 0; at < count && state != kDead; ++at) state = step(state, bytes[at]);
        return state;
    }

    bool accepting(State state) const { return state != kDead && known_[state].accepting; }
    bool can_continue(State state) const { return state != kDead && known_[state].can_continue; }

    // The next two take no dead state.
    std::int64_t shortest_length(State state) const { return known_[state].shortest; }
    // The byte with which the shortest completion begins; the state must not be accepting.
    std::uint8_t first_byte(State state) {
        if (known_[state].first_byte < 0) choose_first_byte(state);
        return static_cast<std::uint8_t>(known_[state].first_byte);
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

    struct Known {
        std::int64_t shortest;
        std::int16_t first_byte;   // -1 until asked for
        std::int16_t forced_byte;  // kUnknownByte until asked for
        bool accepting, can_continue;
    };

    std::size_t row(State state) const {
        return static_cast<std::size_t>(state) * static_cast<std::size_t>(rules_.class_count());
    }
    // The items from which a byte can be read; the first word of a future is `accepting`.
    Words items(State state) const {
        const Words future = futures_[state];
        return {future.first + 1, future.count - 1};
    }
    std::int64_t to_end(std::int32_t node, std::int32_t continuation) const;

    void begin();
    State unfold(State state, std::uint8_t byte);
    State state_of_kernel();
    State add_state();
    void close();
    void predict_and_complete(Item item);
    void resolve();
    std::int32_t intern_alone(std::int32_t rule);
    void intern_loop(const std::int32_t* rules, std::size_t count);
    Item settle(Item item) const;
    void choose_first_byte(State state);
    int find_forced_byte(State state) const;

    Rules rules_;
    std::int64_t max_states_;
    std::int64_t generation_ = 0, first_id_ = 0;
    bool is_broken_ = false;
    State start_ = kDead;

    // Continuations by id: the items that wait, and the fewest bytes from there to the end of text.
    Interner continuations_;
    std::vector<std::int64_t> remaining_;
    // Continuations in a loop, by their system of equations: the id of its first rule.
    Interner systems_;
    std::vector<std::int32_t> first_of_system_;

    // Interned twice: by the items that a byte has led to, and by those that can read a byte.
    Interner kernels_;
    std::vector<State> state_of_kernel_;
    Interner futures_;  // ids are the states
    std::vector<Known> known_;
    std::vector<State> transitions_;

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
