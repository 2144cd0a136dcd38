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
    std::int64_t budget;
    bool fillers;               // try the state's fillers too, or of them only the end token
    Token* witness;             // room for `length` tokens; kMasked where the search sets none
};

// What a search needs besides the states; one for each thread, used again from row to row.
class Searcher {
public:
    // Depth first, in the order of the candidates, then of the fillers. A (position, state)
    // that failed is never entered again. The witness is set where the verdict is kAlive.
    Verdict find_witness(const Canvas& row);

private:
    Verdict search(const Canvas& row);

    struct Frame {
        std::int64_t position;
        State state;
        std::int64_t next_choice;
    };
    std::vector<Frame> stack_;
    WordSet failed_;
};

// Rows are grouped by automaton, and a group is one thread's work: the states of a grammar grow
// while they are walked, so a grammar has one lock, taken once for all its rows. Rows of different
// grammars share nothing that changes. A verdict is a function of its row alone, so neither the
// number of threads nor their timing can show. Throws std::out_of_range for a state that has been
// flushed since.
void find_witnesses(const std::vector<Canvas>& rows, Verdict* verdicts, unsigned threads);

}  // namespace lave
