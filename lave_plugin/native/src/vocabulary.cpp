#include "vocabulary.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace lave {

namespace {

// As in lave_plugin/grammar/vocabulary.py: bounds the cost of a spelling.
constexpr int kLongestInSpelling = 32;

}  // namespace

Arena::Arena(std::vector<std::uint8_t> bytes, std::vector<std::int64_t> begins)
    : bytes_(std::move(bytes)), begins_(std::move(begins)) {
    const std::size_t limit = std::numeric_limits<std::int32_t>::max() / 2;
    if (begins_.empty() || begins_.size() > limit || bytes_.size() > limit || begins_[0] != 0 ||
        begins_.back() != static_cast<std::int64_t>(bytes_.size()) ||
        !std::is_sorted(begins_.begin(), begins_.end())) {
        throw std::invalid_argument(
            "the offsets of the tokens must rise from 0 to the number of bytes, one for each token"
            " and one more");
    }
    for (Token token = 0; token < size(); ++token) {
        const auto length = static_cast<int>(
            std::min<std::size_t>(bytes_of(token).count, kLongestInSpelling));
        longest_in_spelling_ = std::max(longest_in_spelling_, length);
    }
    build_trie();
    index_children();
}

Vocabulary::Vocabulary(std::shared_ptr<const Arena> arena_, std::vector<Token> end_tokens)
    : arena(std::move(arena_)), size_(arena->size()), end_tokens_(std::move(end_tokens)) {
    if (end_tokens_.empty()) throw std::invalid_argument("a vocabulary needs an end token");
    is_end_.assign(size(), 0);
    for (Token token : end_tokens_) {
        // An end token beyond the vocabulary never comes, as in the reference.
        if (token < 0) throw std::invalid_argument("an end token must not be negative");
        if (token >= size()) continue;
        is_end_[token] = 1;
        has_ends_with_bytes_ = has_ends_with_bytes_ || arena->bytes_of(token).count != 0;
    }
    for (int byte = 0; byte < 256; ++byte) {
        const std::int32_t node = arena->child(Arena::kRoot, static_cast<std::uint8_t>(byte));
        if (node >= 0) byte_token_[byte] = token_at(node);
        spells_every_byte_ = spells_every_byte_ && byte_token_[byte] != kNoToken;
    }
}

void Arena::build_trie() {
    std::vector<Token> order;
    for (Token token = 0; token < size(); ++token) {
        if (bytes_of(token).count != 0) order.push_back(token);
    }
    // Stable, so that of tokens with the same bytes the first comes first.
    std::stable_sort(order.begin(), order.end(), [this](Token a, Token b) {
        const Bytes one = bytes_of(a), other = bytes_of(b);
        const int compared = std::memcmp(one.first, other.first, std::min(one.count, other.count));
        return compared != 0 ? compared < 0 : one.count < other.count;
    });
    same_bytes_.assign(size(), kNoToken);
    std::vector<std::int32_t> path;  // nodes from the root to the token before
    Token before = kNoToken;
    for (Token token : order) {
        const Bytes data = bytes_of(token);
        std::size_t common = 0;
        while (common < path.size() && common < data.count &&
               nodes_[path[common]].byte == data.first[common]) {
            ++common;
        }
        if (common == data.count) {  // sorted, so it is the token before
            same_bytes_[before] = token;
            before = token;
            continue;
        }
        while (path.size() > common) {
            nodes_[path.back()].next = static_cast<std::int32_t>(nodes_.size());
            path.pop_back();
        }
        for (std::size_t depth = common; depth < data.count; ++depth) {
            path.push_back(static_cast<std::int32_t>(nodes_.size()));
            nodes_.push_back({0, kNoToken, static_cast<std::int32_t>(depth), data.first[depth]});
            max_depth_ = std::max(max_depth_, static_cast<std::int32_t>(depth));
        }
        nodes_.back().token = token;
        before = token;
    }
    for (std::int32_t node : path) nodes_[node].next = static_cast<std::int32_t>(nodes_.size());
}

void Arena::index_children() {
    const auto count = static_cast<std::int32_t>(nodes_.size());
    child_begins_.assign(1, 0);
    for (std::int32_t node = 0; node < count; node = nodes_[node].next) {
        root_children_[nodes_[node].byte] = node;
    }
    for (std::int32_t node = 0; node < count; ++node) {
        for (std::int32_t below = node + 1; below < nodes_[node].next;
             below = nodes_[below].next) {
            children_.push_back(below);
        }
        child_begins_.push_back(static_cast<std::int32_t>(children_.size()));
    }
}

// Forwards over the string, as the reference does, so that of equally short spellings the same one
// comes out: the one with the longest last token first.
std::optional<std::vector<Token>> Vocabulary::spelling(const std::string& bytes) const {
    struct Prefix {
        std::int32_t tokens = kUnspellable;
        std::int32_t last_length = 0;
        Token last = kNoToken;
    };
    std::vector<Prefix> prefixes(bytes.size() + 1);
    prefixes[0].tokens = 0;
    for (std::size_t from = 0; from < bytes.size(); ++from) {
        if (prefixes[from].tokens >= kUnspellable) continue;
        std::int32_t node = Arena::kRoot;
        for (std::int32_t length = 1; length <= longest_in_spelling(); ++length) {
            if (from + length > bytes.size()) break;
            node = arena->child(node, static_cast<std::uint8_t>(bytes[from + length - 1]));
            if (node < 0) break;
            const Token token = token_at(node);
            if (token == kNoToken) continue;
            Prefix& prefix = prefixes[from + length];
            const std::int32_t count = prefixes[from].tokens + 1;
            if (count < prefix.tokens ||
                (count == prefix.tokens && length > prefix.last_length)) {
                prefix = {count, length, token};
            }
        }
    }
    if (prefixes.back().tokens >= kUnspellable) return std::nullopt;
    std::vector<Token> tokens;
    for (std::size_t end = bytes.size(); end > 0; end -= prefixes[end].last_length) {
        tokens.push_back(prefixes[end].last);
    }
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
}

std::int32_t Arena::child(std::int32_t node, std::uint8_t byte) const {
    if (node == kRoot) return root_children_[byte];
    const auto first = children_.begin() + child_begins_[node];
    const auto last = children_.begin() + child_begins_[node + 1];
    const auto found = std::lower_bound(first, last, byte, [this](std::int32_t below, int wanted) {
        return nodes_[below].byte < wanted;
    });
    return found != last && nodes_[*found].byte == byte ? *found : -1;
}

}  // namespace lave
