// Byte automata of all rules of a grammar, as flat arrays over one numbering of nodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "token_classes.hpp"

namespace lave {

constexpr std::int64_t kUnreachable = std::int64_t{1} << 60;

struct ByteEdge {
    std::uint8_t low, high;  // a byte from low to high leads to target
    std::int32_t target;
};

struct RuleEdge {
    std::int32_t rule;  // a string of the rule leads to target
    std::int32_t target;
};

struct TokenEdge {
    std::int32_t set;  // one token of the set leads to target
    std::int32_t target;
};

template <typename Edge>
struct Edges {
    const Edge *first, *last;
    const Edge* begin() const { return first; }
    const Edge* end() const { return last; }
    bool empty() const { return first == last; }
};

// The arrays as they come from outside: nothing in them can be trusted.
struct RawRules {
    const std::int32_t* byte_begins;  // node n has the byte edges [byte_begins[n], byte_begins[n+1])
    std::size_t byte_begins_count;
    const std::int32_t* byte_edges;  // triples (low, high, target)
    std::size_t byte_edges_count;    // numbers, three to an edge
    const std::int32_t* rule_begins;
    std::size_t rule_begins_count;
    const std::int32_t* rule_edges;  // pairs (rule, target)
    std::size_t rule_edges_count;
    const std::uint8_t* final;  // one for each node
    std::size_t final_count;
    const std::int32_t* start;  // one for each rule
    std::size_t start_count;
    std::int64_t root;

    // What few grammars have; all may be empty.
    std::vector<TokenSet> token_sets;
    const std::int32_t* token_edges = nullptr;  // triples (node, set, target), by node
    std::size_t token_edges_count = 0;          // numbers, three to an edge
    const std::int32_t* token_budgets = nullptr;  // pairs (rule, tokens that may begin inside it)
    std::size_t token_budgets_count = 0;          // numbers, two to a rule
    const std::int32_t* character_budgets = nullptr;  // the same in characters
    std::size_t character_budgets_count = 0;
};

// Fewest bytes from each node to the end of its rule, kUnreachable where there is no way; a token
// edge counts as one. The ids in the arrays must be in range.
std::vector<std::int64_t> shortest_distances(const RawRules& rules);

class Rules {
public:
    // Throws std::invalid_argument where an array contradicts another, an id is out of range, or an
    // edge leads to where nothing can end.
    explicit Rules(const RawRules& raw);

    std::int32_t node_count() const { return static_cast<std::int32_t>(final_.size()); }
    std::int32_t rule_count() const { return static_cast<std::int32_t>(start_.size()); }
    std::int32_t root() const { return root_; }
    std::int32_t start(std::int32_t rule) const { return start_[rule]; }
    bool final(std::int32_t node) const { return final_[node]; }
    // Whether the rule has nothing left to read behind the node.
    bool tail(std::int32_t node) const { return tail_[node]; }
    bool nullable(std::int32_t rule) const { return distance_[start_[rule]] == 0; }
    // Fewest bytes from the node to the end of its rule.
    std::int64_t distance(std::int32_t node) const { return distance_[node]; }

    Edges<ByteEdge> byte_edges(std::int32_t node) const {
        const ByteEdge* edges = byte_edges_.data();
        return {edges + byte_begins_[node], edges + byte_begins_[node + 1]};
    }
    Edges<RuleEdge> rule_edges(std::int32_t node) const {
        const RuleEdge* edges = rule_edges_.data();
        return {edges + rule_begins_[node], edges + rule_begins_[node + 1]};
    }

    // Whether a token is more to the grammar than its bytes.
    bool reads_tokens() const { return token_classes_.set_count() > 0 || counts_tokens(); }
    const TokenClasses& token_classes() const { return token_classes_; }
    Edges<TokenEdge> token_edges(std::int32_t node) const {
        const TokenEdge* edges = token_edges_.data();
        if (token_begins_.empty()) return {edges, edges};
        return {edges + token_begins_[node], edges + token_begins_[node + 1]};
    }
    // Whether there are rules with a token budget, and with one in characters.
    bool counts_tokens() const { return !token_budgets_.empty(); }
    bool counts_characters() const { return !character_budgets_.empty(); }
    // How many tokens, or characters, may begin inside a string of the rule; kNoBudget where it has
    // no such budget.
    static constexpr std::int32_t kNoBudget = -1;
    std::int32_t token_budget(std::int32_t rule) const {
        return counts_tokens() ? token_budgets_[rule] : kNoBudget;
    }
    std::int32_t character_budget(std::int32_t rule) const {
        return counts_characters() ? character_budgets_[rule] : kNoBudget;
    }
    bool has_budget(std::int32_t rule) const {
        return token_budget(rule) != kNoBudget || character_budget(rule) != kNoBudget;
    }
    // Of a node of a rule with a budget in characters: how many begin on the way to the end of the
    // rule, of the shortest ways in bytes where they are fewest.
    std::int32_t characters(std::int32_t node) const { return characters_[node]; }
    static bool begins_character(int byte) { return byte < 0x80 || byte >= 0xC0; }

    // Whether some rule refers to itself, maybe by way of others; if not, states are finite.
    bool recursive() const;

    // Bytes that no edge tells apart are one class: tables of a state need a column for each class
    // only, and a column is unfolded once for all its bytes.
    int class_count() const { return class_count_; }
    int class_of(std::uint8_t byte) const { return class_of_[byte]; }

private:
    void read_token_edges(const RawRules& raw);
    std::vector<std::int32_t> read_budgets(const std::int32_t* pairs, std::size_t count) const;
    void find_byte_classes();
    void count_characters();
    void require_ends() const;
    void require_budgets() const;

    std::vector<std::int32_t> byte_begins_, rule_begins_, start_;
    std::vector<ByteEdge> byte_edges_;
    std::vector<RuleEdge> rule_edges_;
    // Empty where the grammar has none.
    std::vector<std::int32_t> token_begins_, token_budgets_, character_budgets_, characters_;
    std::vector<TokenEdge> token_edges_;
    TokenClasses token_classes_;
    std::vector<char> final_, tail_;
    std::vector<std::int64_t> distance_;
    std::int32_t root_;
    std::array<std::uint8_t, 256> class_of_{};
    int class_count_ = 1;
};

}  // namespace lave
