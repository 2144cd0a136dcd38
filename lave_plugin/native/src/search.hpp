// The search for a witness of one canvas, and of many in one call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "item.hpp"
#include "token_automaton.hpp"

namespace lave {

constexpr Token kMasked = -1;

enum class Verdict : std::uint8_t { kAlive = 0, kRefuted = 1, kUndecided = 2 };

struct Candidates {
    const std::int32_t* tokens;
    std::int64_t count;
};

// One row of a batch: the arguments of `find_witness` in lave_plugin/lattice.py.
struct Canvas {
    TokenAutomaton* tokens;
    State state;                // before position `first`
    std::int64_t generation;    // of the automaton when the state was its
    const Token* canvas;        // `length` tokens, kMasked where none is
    std::int64_t length;
    std::int64_t first;         // from 0 to `length`
    std::int64_t tokens_left;
    const Candidates* candidates;  // by position; those of positions that aren't masked are not read
    std::int64_t budget;        // nodes to enter
    bool fillers;               // try the state's fillers too, or of them only the end token
    Token* witness;             // room for `length` tokens; kMasked where the search sets none
};

// The search of lave_plugin/lattice.py, which is the reference and says why: best first, by rank,
// position and what is left to complete. One for each thread, used again from row to row.
class Searcher {
public:
    // The witness is set where the verdict is kAlive.
    Verdict find_witness(const Canvas& row);

private:
    // A masked position with the state before it, or the end of the way.
    struct Node {
        std::int64_t position;
        State state;
        std::int32_t before;  // the node that `token` was chosen at
        Token token;
        std::int64_t cost;  // the ranks of the tokens chosen on the way, summed
        std::int64_t at;    // the next choice
        bool on_fillers;
    };
    // The lowest priority goes first, of equals the newest.
    struct Open {
        std::int64_t priority;
        std::int64_t pushed;
        std::int32_t node;
        bool operator<(const Open& other) const {
            return priority != other.priority ? priority > other.priority : pushed < other.pushed;
        }
    };
    static constexpr std::int32_t kNone = -1;
    static constexpr std::int64_t kCompletion = 2;

    Verdict search();
    std::int32_t choose(std::int32_t index);
    std::int32_t enter(std::int64_t position, State state, std::int32_t before, Token token,
                       std::int64_t cost);
    State advance(std::int64_t position, State state, Token token);
    void pass_committed(std::int64_t& position, State& state);
    TokenAutomaton::Tokens choices(const Node& node);
    std::int64_t cost_of_next(const Node& node) const;
    std::int64_t priority(const Node& node) const;

    const Canvas* row_ = nullptr;
    std::int64_t last_ = 0, tokens_left_ = 0;
    std::vector<Node> nodes_;
    std::vector<Open> open_;
    std::int64_t pushed_ = 0;
    WordSet entered_;
};

// The rows spread over threads (threads.hpp). Throws std::out_of_range for a state that has been
// flushed since.
void find_witnesses(const std::vector<Canvas>& rows, Verdict* verdicts, unsigned threads);

}  // namespace lave
