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

// The search of lave_plugin/lattice.py, which is the reference and says why: best first, by position
// and discrepancies. One for each thread, used again from row to row.
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
        std::int64_t discrepancies;
        std::int64_t at;  // the next choice
        bool on_fillers;
    };
    // The lowest rank goes first, of equals the newest.
    struct Open {
        std::int64_t rank;
        std::int64_t pushed;
        std::int32_t node;
        bool operator<(const Open& other) const {
            return rank != other.rank ? rank > other.rank : pushed < other.pushed;
        }
    };
    static constexpr std::int32_t kNone = -1;
    static constexpr std::int64_t kDiscrepancy = 8, kFillers = 2;

    Verdict search();
    std::int32_t choose(std::int32_t index);
    std::int32_t enter(std::int64_t position, State state, std::int32_t before, Token token,
                       std::int64_t discrepancies);
    State advance(std::int64_t position, State state, Token token);
    void pass_committed(std::int64_t& position, State& state);
    TokenAutomaton::Tokens choices(const Node& node);

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
