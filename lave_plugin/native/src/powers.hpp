// Repetition, put back together, and long repetition cut into blocks.
//
// The same as lave_plugin/grammar/powers.py and repetition.py, which say what for.
#pragma once

#include "notation.hpp"

namespace lave {

// Recognises powers, resolves aliases, merges neighbours, gives equal rules one name.
void fold_powers(Grammar& grammar);

// Leaves no repetition with a bound above 64.
void split_long_repetition(Grammar& grammar);

}  // namespace lave
