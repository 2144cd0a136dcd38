// One rule's automaton while it is being built, and how it becomes deterministic.
//
// The same as lave_plugin/grammar/nfa.py. Symbols are bytes and rules alike: an edge reads a byte
// out of a range, or a whole rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "notation.hpp"
#include "rules.hpp"
#include "utf8.hpp"

namespace lave {

// Node 0 is the start, node 1 the only end.
class Nfa {
public:
    static constexpr std::int32_t kStart = 0, kEnd = 1;

    std::int32_t new_node() {
        nodes_.emplace_back();
        return static_cast<std::int32_t>(nodes_.size() - 1);
    }
    void add_empty(std::int32_t source, std::int32_t target) {
        nodes_[source].empty_edges.push_back(target);
    }
    void add_element(const Grammar& grammar, const Element& element, std::int32_t source,
                     std::int32_t target);

    // The powerset automaton, its start at index 0. A powerset can be exponential: one that
    // outgrows the automaton too far is given up, and it is only freed of its empty edges.
    std::vector<FinishedNode> determinise(const Grammar& grammar) const;

private:
    struct Node {
        std::vector<ByteEdge> byte_edges;
        std::vector<RuleEdge> rule_edges;
        std::vector<std::int32_t> empty_edges;
    };
    using Subset = std::vector<std::uint64_t>;  // nodes in ascending order

    void add_one(const Grammar& grammar, AtomId atom, std::int32_t source, std::int32_t target);
    void add_text(const std::string& data, std::int32_t source, std::int32_t target);
    void add_class(const std::vector<CodePointRange>& ranges, std::int32_t source,
                   std::int32_t target);
    void add_repeat(const Grammar& grammar, const Element& repeat, std::int32_t source,
                    std::int32_t target);
    std::vector<Subset> closures() const;

    std::vector<Node> nodes_ = std::vector<Node>(2);
};

}  // namespace lave
