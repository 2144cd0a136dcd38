#include "nfa.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "interner.hpp"

namespace lave {

namespace {

constexpr std::size_t kGrowthLimit = 8;

struct Part {
    int low, high;
    std::vector<std::int32_t> targets;
};

// Cuts overlapping byte ranges so that each part has one set of targets.
std::vector<Part> disjoint(std::vector<ByteEdge> edges) {
    std::sort(edges.begin(), edges.end(), [](const ByteEdge& a, const ByteEdge& b) {
        return std::make_pair(a.low, a.high) < std::make_pair(b.low, b.high);
    });
    std::vector<Part> ranges;
    for (const ByteEdge& edge : edges) {
        if (ranges.empty() || ranges.back().low != edge.low || ranges.back().high != edge.high) {
            ranges.push_back({edge.low, edge.high, {}});
        }
        ranges.back().targets.push_back(edge.target);
    }
    bool overlap = false;
    std::vector<int> cuts;
    for (std::size_t at = 0; at < ranges.size(); ++at) {
        overlap |= at > 0 && ranges[at - 1].high >= ranges[at].low;
        cuts.push_back(ranges[at].low);
        cuts.push_back(ranges[at].high + 1);
    }
    if (!overlap) return ranges;
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<Part> parts;
    for (std::size_t at = 0; at + 1 < cuts.size(); ++at) {
        Part part{cuts[at], cuts[at + 1] - 1, {}};
        for (const Part& range : ranges) {
            if (range.low <= part.low && part.low <= range.high) {
                part.targets.insert(part.targets.end(), range.targets.begin(),
                                    range.targets.end());
            }
        }
        if (!part.targets.empty()) parts.push_back(std::move(part));
    }
    return parts;
}

}  // namespace

void Nfa::add_element(const Grammar& grammar, const Element& element, std::int32_t source,
                      std::int32_t target) {
    if (element.is_repeat) {
        add_repeat(grammar, element, source, target);
    } else {
        add_one(grammar, element.atom, source, target);
    }
}

void Nfa::add_one(const Grammar& grammar, AtomId id, std::int32_t source, std::int32_t target) {
    const Atom& atom = grammar.atom(id);
    switch (atom.kind) {
        case AtomKind::kText: return add_text(atom.text, source, target);
        case AtomKind::kClass: return add_class(atom.ranges, source, target);
        case AtomKind::kRule: nodes_[source].rule_edges.push_back({id, target});
    }
}

void Nfa::add_text(const std::string& data, std::int32_t source, std::int32_t target) {
    for (std::size_t at = 0; at < data.size(); ++at) {
        const auto byte = static_cast<std::uint8_t>(data[at]);
        const std::int32_t following = at + 1 == data.size() ? target : new_node();
        nodes_[source].byte_edges.push_back({byte, byte, following});
        source = following;
    }
}

// One character: the encodings as a trie whose equal tails are shared.
void Nfa::add_class(const std::vector<CodePointRange>& ranges, std::int32_t source,
                    std::int32_t target) {
    using Tail = std::vector<ByteSequence>;
    if (!ranges.empty() && ranges.back().second <= 0x7F) {  // the usual case, and no trie
        for (const auto& [low, high] : ranges) {
            nodes_[source].byte_edges.push_back(
                {static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), target});
        }
        return;
    }
    std::map<Tail, std::int32_t> tails{{Tail{{}}, target}};
    std::vector<std::pair<std::int32_t, Tail>> pending{{source, byte_sequences(ranges)}};
    while (!pending.empty()) {
        const auto [node, sequences] = std::move(pending.back());
        pending.pop_back();
        std::vector<std::pair<ByteRange, Tail>> by_first;
        for (const ByteSequence& sequence : sequences) {
            const ByteRange first = sequence.front();
            auto group = std::find_if(by_first.begin(), by_first.end(),
                                      [first](const auto& each) { return each.first == first; });
            if (group == by_first.end()) group = by_first.insert(group, {first, {}});
            group->second.emplace_back(sequence.begin() + 1, sequence.end());
        }
        for (auto& [first, tail] : by_first) {
            auto known = tails.find(tail);
            if (known == tails.end()) {
                known = tails.emplace(tail, new_node()).first;
                pending.emplace_back(known->second, tail);
            }
            nodes_[node].byte_edges.push_back({first.first, first.second, known->second});
        }
    }
}

// A chain of `high` copies that may be left from `low` on; without bound, a loop.
void Nfa::add_repeat(const Grammar& grammar, const Element& repeat, std::int32_t source,
                     std::int32_t target) {
    std::int32_t node = source;
    auto add_copy = [&] {
        const std::int32_t following = new_node();
        add_one(grammar, repeat.atom, node, following);
        node = following;
    };
    for (std::int64_t copy = 0; copy < repeat.low; ++copy) add_copy();
    if (repeat.high == kUnbounded) {
        const std::int32_t loop = new_node();
        add_empty(node, loop);
        add_one(grammar, repeat.atom, loop, loop);
        add_empty(loop, target);
        return;
    }
    for (std::int64_t copy = repeat.low; copy < repeat.high; ++copy) {
        add_empty(node, target);
        add_copy();
    }
    add_empty(node, target);
}

// For each node the nodes with edges, or the end, that are reached by reading nothing.
std::vector<Nfa::Subset> Nfa::closures() const {
    const auto count = static_cast<std::int32_t>(nodes_.size());
    auto matters = [this](std::int32_t node) {
        return node == kEnd || !nodes_[node].byte_edges.empty() ||
               !nodes_[node].rule_edges.empty();
    };
    std::vector<Subset> result(count);
    std::vector<std::int32_t> seen_by(count, -1), pending;
    for (std::int32_t node = 0; node < count; ++node) {
        pending.assign(1, node);
        seen_by[node] = node;
        while (!pending.empty()) {
            const std::int32_t found = pending.back();
            pending.pop_back();
            if (matters(found)) result[node].push_back(static_cast<std::uint64_t>(found));
            for (std::int32_t target : nodes_[found].empty_edges) {
                if (seen_by[target] == node) continue;
                seen_by[target] = node;
                pending.push_back(target);
            }
        }
        std::sort(result[node].begin(), result[node].end());
    }
    return result;
}

std::vector<FinishedNode> Nfa::determinise(const Grammar& grammar) const {
    const std::vector<Subset> closure = closures();
    auto is_final = [](const Subset& subset) {
        return std::binary_search(subset.begin(), subset.end(),
                                  static_cast<std::uint64_t>(kEnd));
    };
    Interner subsets;
    Subset joined;
    auto number_of = [&](const std::vector<std::int32_t>& targets) {
        if (targets.size() == 1) return subsets.intern(closure[targets[0]]).id;
        joined.clear();
        for (std::int32_t target : targets) {
            joined.insert(joined.end(), closure[target].begin(), closure[target].end());
        }
        std::sort(joined.begin(), joined.end());
        joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
        return subsets.intern(joined).id;
    };

    const std::size_t limit = kGrowthLimit * nodes_.size() + 64;
    std::vector<FinishedNode> finished;
    subsets.intern(closure[kStart]);
    while (finished.size() < subsets.size() && subsets.size() <= limit) {
        const Words members = subsets[static_cast<std::int32_t>(finished.size())];
        const Subset subset(members.begin(), members.end());
        FinishedNode node;
        node.final = is_final(subset);
        std::vector<ByteEdge> byte_edges;
        std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>> by_rule;
        for (std::uint64_t member : subset) {
            const Node& part = nodes_[member];
            byte_edges.insert(byte_edges.end(), part.byte_edges.begin(), part.byte_edges.end());
            for (const RuleEdge& edge : part.rule_edges) {
                auto group = std::find_if(by_rule.begin(), by_rule.end(), [&](const auto& each) {
                    return each.first == edge.rule;
                });
                if (group == by_rule.end()) group = by_rule.insert(group, {edge.rule, {}});
                group->second.push_back(edge.target);
            }
        }
        for (const Part& part : disjoint(std::move(byte_edges))) {
            const std::int32_t target = number_of(part.targets);
            ByteEdge* last = node.byte_edges.empty() ? nullptr : &node.byte_edges.back();
            if (last && last->target == target && last->high + 1 == part.low) {
                last->high = static_cast<std::uint8_t>(part.high);
            } else {
                node.byte_edges.push_back({static_cast<std::uint8_t>(part.low),
                                           static_cast<std::uint8_t>(part.high), target});
            }
        }
        std::sort(by_rule.begin(), by_rule.end(), [&grammar](const auto& a, const auto& b) {
            return grammar.atom(a.first).text < grammar.atom(b.first).text;
        });
        for (const auto& [rule, targets] : by_rule) {
            node.rule_edges.push_back({rule, number_of(targets)});
        }
        finished.push_back(std::move(node));
    }
    if (finished.size() == subsets.size()) return finished;

    finished.clear();
    for (const Subset& members : closure) {
        FinishedNode node;
        node.final = is_final(members);
        for (std::uint64_t member : members) {
            const Node& part = nodes_[member];
            node.byte_edges.insert(node.byte_edges.end(), part.byte_edges.begin(),
                                   part.byte_edges.end());
            node.rule_edges.insert(node.rule_edges.end(), part.rule_edges.begin(),
                                   part.rule_edges.end());
        }
        finished.push_back(std::move(node));
    }
    return finished;
}

}  // namespace lave
