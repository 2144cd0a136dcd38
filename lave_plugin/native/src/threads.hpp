// Work on the rows of a batch, spread over threads.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "automaton.hpp"

namespace lave {

// Calls `work` with the rows of each automaton in turn, its lock held. Rows are grouped by automaton
// and a group is one thread's: the states of a grammar grow while they are walked. Rows of
// different grammars share nothing that changes, and what is done to a row depends on it alone, so
// neither the number of threads nor their timing can show. The first exception is thrown again.
void for_each_automaton(const std::vector<Automaton*>& automaton_of_row, unsigned threads,
                        const std::function<void(const std::vector<std::size_t>& rows)>& work);

}  // namespace lave
