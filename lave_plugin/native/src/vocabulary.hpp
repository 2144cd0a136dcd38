// A tokenizer's tokens as bytes, and as a trie. Shared by all grammars; never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lave {

using Token = std::int32_t;
constexpr Token kNoToken = -1;
constexpr std::int32_t kUnspellable = 1 << 30;

struct Bytes {
    const std::uint8_t* first;
    std::size_t count;
};

// The tokens, whatever ends a text. The nodes of the trie stand in preorder, so a walk over the whole
// of it is a walk over an array, and what is below a node is left out by going on at its `next`.
class Arena {
public:
    // Token t has the bytes from begins[t] up to begins[t + 1]. Throws std::invalid_argument for
    // offsets that don't rise.
    Arena(std::vector<std::uint8_t> bytes, std::vector<std::int64_t> begins);

    Token size() const { return static_cast<Token>(begins_.size() - 1); }
    Bytes bytes_of(Token token) const {
        return {bytes_.data() + begins_[token],
                static_cast<std::size_t>(begins_[token + 1] - begins_[token])};
    }
    int longest_in_spelling() const { return longest_in_spelling_; }

    struct Node {
        std::int32_t next;   // the node behind this one and all below it
        Token token;         // the first token that ends here, or kNoToken
        std::int32_t depth;  // of its byte: 0 for the first of a token
        std::uint8_t byte;
    };
    const std::vector<Node>& nodes() const { return nodes_; }
    std::int32_t max_depth() const { return max_depth_; }
    // The next token with the same bytes, or kNoToken.
    Token same_bytes(Token token) const { return same_bytes_[token]; }

    // The node behind `byte`; `node` is kRoot or an index into nodes(). -1 where there is none.
    static constexpr std::int32_t kRoot = -1;
    std::int32_t child(std::int32_t node, std::uint8_t byte) const;

private:
    void build_trie();
    void index_children();

    std::vector<std::uint8_t> bytes_;
    std::vector<std::int64_t> begins_;
    std::vector<Token> same_bytes_;
    int longest_in_spelling_ = 0;
    std::vector<Node> nodes_;
    std::int32_t max_depth_ = 0;
    std::vector<std::int32_t> root_children_ = std::vector<std::int32_t>(256, -1);
    std::vector<std::int32_t> child_begins_;  // by node
    std::vector<std::int32_t> children_;      // nodes, in the order of their bytes
};

// The tokens of an arena, some of which end a text; these have no bytes here. An arena serves all
// vocabularies that differ in their end tokens only.
class Vocabulary {
public:
    // Throws std::invalid_argument where there is no end token, or a negative one.
    Vocabulary(std::shared_ptr<const Arena> arena, std::vector<Token> end_tokens);

    const std::shared_ptr<const Arena> arena;

    Token size() const { return size_; }
    bool is_end(Token token) const { return is_end_[token]; }
    Token end_token() const { return end_tokens_[0]; }
    const std::vector<Token>& end_tokens() const { return end_tokens_; }
    Bytes bytes_of(Token token) const {
        if (has_ends_with_bytes_ && is_end_[token]) return {nullptr, 0};
        return arena->bytes_of(token);
    }
    // The first token that ends at a node of the arena's trie, and the next one with the same
    // bytes; kNoToken where there is none.
    Token token_at(std::int32_t node) const { return passing_ends(arena->nodes()[node].token); }
    Token same_bytes(Token token) const { return passing_ends(arena->same_bytes(token)); }
    // The token of a single byte, kNoToken where there is none.
    Token byte_token(std::uint8_t byte) const { return byte_token_[byte]; }
    bool spells_every_byte() const { return spells_every_byte_; }
    // No token that a spelling uses has more bytes.
    int longest_in_spelling() const { return arena->longest_in_spelling(); }

    // The fewest tokens that spell `bytes`; nothing where none do.
    std::optional<std::vector<Token>> spelling(const std::string& bytes) const;

private:
    Token passing_ends(Token token) const {
        while (has_ends_with_bytes_ && token != kNoToken && is_end_[token]) {
            token = arena->same_bytes(token);
        }
        return token;
    }

    Token size_;
    std::vector<Token> end_tokens_;
    std::vector<char> is_end_;
    bool has_ends_with_bytes_ = false;
    std::vector<Token> byte_token_ = std::vector<Token>(256, kNoToken);
    bool spells_every_byte_ = true;
};

}  // namespace lave
