// UTF-8 as byte automata: code-point ranges to byte ranges. The tables follow RFC 3629.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lave {

constexpr std::int32_t kMaxCodePoint = 0x10FFFF;

using CodePointRange = std::pair<std::int32_t, std::int32_t>;
using ByteRange = std::pair<std::uint8_t, std::uint8_t>;
using ByteSequence = std::vector<ByteRange>;

void append_utf8(std::string& text, std::int32_t character);

// Sorts ranges and merges those that touch.
std::vector<CodePointRange> normalise_ranges(std::vector<CodePointRange> ranges);

// The code points outside normalised `ranges`.
std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges);

// Sequences of byte ranges that together match exactly the encodings of `ranges`. Ranges of one
// position in two sequences are equal or disjoint as long as those before them are equal.
std::vector<ByteSequence> byte_sequences(const std::vector<CodePointRange>& ranges);

}  // namespace lave
