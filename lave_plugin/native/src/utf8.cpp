#include "utf8.hpp"

#include <algorithm>

namespace lave {

namespace {

// Ranges of code points whose encodings have one length; the surrogates have no encoding.
constexpr std::int32_t kSameLength[][2] = {
    {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}};

// Byte-range sequences for the encodings from `first` to `last`, both of one length. Recursion is
// as deep as an encoding is long.
std::vector<ByteSequence> between(const std::string& first, const std::string& last) {
    const auto lead = [](const std::string& bytes) { return static_cast<std::uint8_t>(bytes[0]); };
    if (first.size() == 1) return {{{lead(first), lead(last)}}};
    std::vector<ByteSequence> sequences;
    auto add = [&sequences](ByteRange head, const std::vector<ByteSequence>& rests) {
        for (const ByteSequence& rest : rests) {
            sequences.push_back({head});
            sequences.back().insert(sequences.back().end(), rest.begin(), rest.end());
        }
    };
    if (lead(first) == lead(last)) {
        add({lead(first), lead(first)}, between(first.substr(1), last.substr(1)));
        return sequences;
    }
    const std::size_t tail = first.size() - 1;
    const std::string lowest(tail, '\x80'), highest(tail, '\xbf');
    int low = lead(first), high = lead(last);
    if (first.substr(1) != lowest) {
        add({lead(first), lead(first)}, between(first.substr(1), highest));
        ++low;
    }
    const bool closes = last.substr(1) != highest;
    if (closes) --high;
    if (low <= high) {
        sequences.push_back({{static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)}});
        sequences.back().resize(tail + 1, {0x80, 0xBF});
    }
    if (closes) add({lead(last), lead(last)}, between(lowest, last.substr(1)));
    return sequences;
}

}  // namespace

void append_utf8(std::string& text, std::int32_t character) {
    auto put = [&text](std::int32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (character < 0x80) return put(character);
    if (character < 0x800) {
        put(0xC0 | character >> 6);
    } else {
        if (character < 0x10000) {
            put(0xE0 | character >> 12);
        } else {
            put(0xF0 | character >> 18);
            put(0x80 | (character >> 12 & 0x3F));
        }
        put(0x80 | (character >> 6 & 0x3F));
    }
    put(0x80 | (character & 0x3F));
}

std::vector<CodePointRange> normalise_ranges(std::vector<CodePointRange> ranges) {
    std::sort(ranges.begin(), ranges.end());
    std::vector<CodePointRange> merged;
    for (const auto& [low, high] : ranges) {
        if (!merged.empty() && low <= merged.back().second + 1) {
            merged.back().second = std::max(merged.back().second, high);
        } else {
            merged.emplace_back(low, high);
        }
    }
    return merged;
}

std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges) {
    std::vector<CodePointRange> outside;
    std::int32_t next_free = 0;
    for (const auto& [low, high] : ranges) {
        if (low > next_free) outside.emplace_back(next_free, low - 1);
        next_free = high + 1;
    }
    if (next_free <= kMaxCodePoint) outside.emplace_back(next_free, kMaxCodePoint);
    return outside;
}

std::vector<ByteSequence> byte_sequences(const std::vector<CodePointRange>& ranges) {
    std::vector<ByteSequence> sequences;
    for (const auto& [low, high] : ranges) {
        for (const auto& [shortest, longest] : kSameLength) {
            const std::int32_t from = std::max(low, shortest), to = std::min(high, longest);
            if (from > to) continue;
            std::string first, last;
            append_utf8(first, from);
            append_utf8(last, to);
            for (ByteSequence& sequence : between(first, last)) {
                sequences.push_back(std::move(sequence));
            }
        }
    }
    return sequences;
}

}  // namespace lave
