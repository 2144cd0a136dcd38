// A tokenizer's tokens as bytes, and as a trie. Shared by all grammars; never changed.
#pragma once

#include <cstdint>
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

// The nodes of the trie stand in preorder, so a walk over the whole of it is a walk over an array,
// and what is below a node is left out by going on at its `next`.
class Vocabulary {
public:
    // Token t has the bytes from begins[t] up to begins[t + 1]; end tokens have none. Throws
    // std::invalid_argument for offsets that don't rise and for an end token that is no token.
    Vocabulary(std::vector<std::uint8_t> bytes, std::vector<std::int64_t> begins,
               std::vector<Token> end_tokens);

    Token size() const { return static_cast<Token>(begins_.size() - 1); }
    bool is_end(Token token) const { return is_end_[token]; }
    Token end_token() const { return end_tokens_[0]; }
    const std::vector<Token>& end_tokens() const { return end_tokens_; }
    Bytes bytes_of(Token token) const {
        return {bytes_.data() + begins_[token],
                static_cast<std::size_t>(begins_[token + 1] - begins_[token])};
    }
    // The token of a single byte, kNoToken where there is none.
    Token byte_token(std::uint8_t byte) const { return byte_token_[byte]; }
    bool spells_every_byte() const { return spells_every_byte_; }
    // Bytes of the longest token that a spelling uses.
    int longest_in_spelling() const { return longest_in_spelling_; }

    // The fewest tokens that spell `bytes`; nothing where none do.
    std::optional<std::vector<Token>> spelling(const std::string& bytes) const;

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
    std::vector<Token> end_tokens_;
    std::vector<char> is_end_;
    std::vector<Token> byte_token_ = std::vector<Token>(256, kNoToken);
    std::vector<Token> same_bytes_;
    bool spells_every_byte_ = true;
    int longest_in_spelling_ = 0;

    std::vector<Node> nodes_;
    std::int32_t max_depth_ = 0;
    std::vector<std::int32_t> root_children_ = std::vector<std::int32_t>(256, -1);
    std::vector<std::int32_t> child_begins_;  // by node
    std::vector<std::int32_t> children_;      // nodes, in the order of their bytes
};

}  // namespace lave
