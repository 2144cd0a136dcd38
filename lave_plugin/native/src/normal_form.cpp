#include "normal_form.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "interner.hpp"
#include "nfa.hpp"
#include "notation.hpp"
#include "powers.hpp"

namespace lave {

namespace {

// Builds the automata of the rules that are reachable from the root and not used in place.
class RuleBuilder {
public:
    RuleBuilder(const Grammar& grammar, AtomId root) : grammar_(grammar) { count_uses(root); }

    std::unordered_map<AtomId, std::vector<FinishedNode>> build_all() const {
        std::unordered_map<AtomId, std::vector<FinishedNode>> automata;
        for (AtomId rule : reached_) {
            if (grammar_.is_macro(rule)) {
                for (const auto& [part, nodes] : grammar_.macros.at(rule).parts) {
                    automata[part] = nodes;
                }
            } else if (!in_place(rule)) {
                automata[rule] = build_choice(rule).determinise(grammar_);
            }
        }
        return automata;
    }

private:
    // A loop at the end of a rule isn't a use. Repetition and dispatch need the rule as a rule.
    void count_uses(AtomId root) {
        uses_[root] = 2;
        std::unordered_set<AtomId> seen{root};
        reached_.push_back(root);
        std::vector<AtomId> pending{root};
        while (!pending.empty()) {
            const AtomId rule = pending.back();
            pending.pop_back();
            for (AtomId callee : grammar_.references(rule)) {
                if (!seen.insert(callee).second) continue;
                reached_.push_back(callee);
                pending.push_back(callee);
            }
            if (grammar_.is_macro(rule)) {
                for (AtomId callee : grammar_.references(rule)) uses_[callee] += 2;
                continue;
            }
            for (const Sequence& sequence : grammar_.bodies.at(rule)) {
                for (std::size_t at = 0; at < sequence.size(); ++at) {
                    const Element& element = sequence[at];
                    if (!grammar_.is_rule(element.atom)) continue;
                    if (element.is_repeat) {
                        uses_[element.atom] += 2;
                    } else if (!is_loop(rule, sequence, at)) {
                        ++uses_[element.atom];
                    }
                }
            }
        }
    }

    bool in_place(AtomId rule) const {
        const auto uses = uses_.find(rule);
        return uses != uses_.end() && uses->second == 1 && !grammar_.is_macro(rule);
    }

    static bool starts_with_itself(AtomId rule, const Sequence& sequence) {
        return sequence.size() > 1 && Grammar::refers_to(sequence.front(), rule) &&
               !Grammar::refers_to(sequence.back(), rule);
    }
    static bool ends_with_itself(AtomId rule, const Sequence& sequence) {
        return !sequence.empty() && Grammar::refers_to(sequence.back(), rule);
    }
    static bool is_loop(AtomId rule, const Sequence& sequence, std::size_t at) {
        if (!Grammar::refers_to(sequence[at], rule)) return false;
        return at + 1 == sequence.size() || (at == 0 && starts_with_itself(rule, sequence));
    }

    struct Pending {
        AtomId rule;
        std::int32_t source, target;
    };

    Nfa build_choice(AtomId rule) const {
        Nfa nfa;
        std::vector<Pending> pending{{rule, Nfa::kStart, Nfa::kEnd}};
        while (!pending.empty()) {
            const Pending next = pending.back();
            pending.pop_back();
            add_rule(nfa, next, pending);
        }
        return nfa;
    }

    // With A ::= p A | A q | b, the language of A is p* b q*: a reference to the rule itself at the
    // end leads back to its entry, one at the beginning is left out and starts at the exit.
    void add_rule(Nfa& nfa, const Pending& place, std::vector<Pending>& pending) const {
        const Body& body = grammar_.bodies.at(place.rule);
        std::int32_t entry = place.source, leave = place.target;
        auto ends = [&](const Sequence& each) { return ends_with_itself(place.rule, each); };
        auto starts = [&](const Sequence& each) { return starts_with_itself(place.rule, each); };
        if (std::any_of(body.begin(), body.end(), ends)) {
            entry = nfa.new_node();
            nfa.add_empty(place.source, entry);
        }
        if (std::any_of(body.begin(), body.end(), starts)) {
            leave = nfa.new_node();
            nfa.add_empty(leave, place.target);
        }
        for (const Sequence& sequence : body) {
            std::int32_t before = entry, last = leave;
            std::size_t from = 0, to = sequence.size();
            if (ends(sequence)) {
                --to;
                last = entry;
            } else if (starts(sequence)) {
                ++from;
                before = leave;
            }
            if (from == to) nfa.add_empty(before, last);
            for (std::size_t at = from; at < to; ++at) {
                const std::int32_t after = at + 1 == to ? last : nfa.new_node();
                const Element& element = sequence[at];
                if (!element.is_repeat && grammar_.is_rule(element.atom) &&
                    in_place(element.atom)) {
                    pending.push_back({element.atom, before, after});
                } else {
                    nfa.add_element(grammar_, element, before, after);
                }
                before = after;
            }
        }
    }

    const Grammar& grammar_;
    std::unordered_map<AtomId, std::int64_t> uses_;
    std::vector<AtomId> reached_;
};

// Puts the automata into one numbering, in which equal futures share their nodes.
class Linker {
public:
    Linker(const Grammar& grammar,
           const std::unordered_map<AtomId, std::vector<FinishedNode>>& automata)
        : grammar_(grammar), automata_(automata) {}

    void link(AtomId root) {
        for (AtomId rule : callees_first(root)) {
            const std::int32_t start = link_rule(automata_.at(rule));
            if (!rule_ids_.count(rule)) {  // not yet referred to, so it may be an old rule
                const auto old = rule_at_.find(start);
                if (old != rule_at_.end()) {
                    rule_ids_[rule] = old->second;
                    continue;
                }
            }
            const std::int32_t id = rule_id(rule);
            start_[id] = start;
            rule_at_.emplace(start, id);
        }
        root_ = rule_ids_.at(root);
    }

    // Without the edges that lead nowhere.
    RuleArrays finish() {
        RuleArrays out;
        out.names = std::move(names_);
        out.start = start_;
        out.root = root_;
        for (const FinishedNode& node : nodes_) out.final.push_back(node.final);
        append_edges(out, [](std::int32_t) { return true; });
        const std::vector<std::int64_t> distance = shortest_distances(out.raw());
        if (distance[start_[root_]] >= kUnreachable) throw NotPlain();
        append_edges(out, [&](std::int32_t node) { return distance[node] < kUnreachable; });
        return out;
    }

private:
    template <typename Ends>
    void append_edges(RuleArrays& out, Ends ends) const {
        out.byte_begins.assign(1, 0);
        out.rule_begins.assign(1, 0);
        out.byte_edges.clear();
        out.rule_edges.clear();
        for (const FinishedNode& node : nodes_) {
            for (const ByteEdge& edge : node.byte_edges) {
                if (!ends(edge.target)) continue;
                out.byte_edges.insert(out.byte_edges.end(), {edge.low, edge.high, edge.target});
            }
            for (const RuleEdge& edge : node.rule_edges) {
                if (!ends(edge.target) || !ends(start_[edge.rule])) continue;
                out.rule_edges.insert(out.rule_edges.end(), {edge.rule, edge.target});
            }
            out.byte_begins.push_back(static_cast<std::int32_t>(out.byte_edges.size() / 3));
            out.rule_begins.push_back(static_cast<std::int32_t>(out.rule_edges.size() / 2));
        }
    }

    // Depth-first post-order over the rules.
    std::vector<AtomId> callees_first(AtomId root) const {
        struct Visit {
            AtomId rule;
            std::vector<AtomId> callees;
            std::size_t next;
        };
        std::vector<AtomId> order;
        std::unordered_set<AtomId> visited;
        std::vector<Visit> path;
        auto enter = [&](AtomId rule) {
            visited.insert(rule);
            std::vector<AtomId> callees;
            for (const FinishedNode& node : automata_.at(rule)) {
                for (const RuleEdge& edge : node.rule_edges) callees.push_back(edge.rule);
            }
            path.push_back({rule, std::move(callees), 0});
        };
        enter(root);
        while (!path.empty()) {
            Visit& visit = path.back();
            if (visit.next == visit.callees.size()) {
                order.push_back(visit.rule);
                path.pop_back();
                continue;
            }
            const AtomId callee = visit.callees[visit.next++];
            if (!visited.count(callee)) enter(callee);
        }
        return order;
    }

    // Depth-first post-order over the nodes of a rule.
    static std::vector<std::int32_t> targets_first(const std::vector<FinishedNode>& nodes) {
        std::vector<std::int32_t> order;
        std::vector<char> visited(nodes.size(), 0);
        std::vector<std::pair<std::int32_t, std::size_t>> path{{0, 0}};
        visited[0] = 1;
        while (!path.empty()) {
            auto& [index, next] = path.back();
            const FinishedNode& node = nodes[index];
            if (next == node.byte_edges.size() + node.rule_edges.size()) {
                order.push_back(index);
                path.pop_back();
                continue;
            }
            const std::int32_t target = next < node.byte_edges.size()
                                            ? node.byte_edges[next].target
                                            : node.rule_edges[next - node.byte_edges.size()].target;
            ++next;
            if (visited[target]) continue;
            visited[target] = 1;
            path.emplace_back(target, 0);
        }
        return order;
    }

    std::int32_t rule_id(AtomId rule) {
        const auto [place, is_new] =
            rule_ids_.emplace(rule, static_cast<std::int32_t>(names_.size()));
        if (is_new) {
            names_.push_back(grammar_.atom(rule).text);
            start_.push_back(-1);
        }
        return place->second;
    }

    std::int32_t new_node() {
        nodes_.emplace_back();
        return static_cast<std::int32_t>(nodes_.size() - 1);
    }

    // Numbers the nodes of one rule, targets first; returns the number of the start.
    std::int32_t link_rule(const std::vector<FinishedNode>& nodes) {
        std::vector<std::int32_t> numbers(nodes.size(), -1);
        for (std::int32_t index : targets_first(nodes)) {
            FinishedNode node = nodes[index];
            auto reserve = [&](std::int32_t target) {
                // A loop leads back to a node that has no number yet.
                if (numbers[target] < 0 && target != index) numbers[target] = new_node();
            };
            for (const ByteEdge& edge : node.byte_edges) reserve(edge.target);
            for (const RuleEdge& edge : node.rule_edges) reserve(edge.target);
            for (ByteEdge& edge : node.byte_edges) edge.target = numbers[edge.target];
            for (RuleEdge& edge : node.rule_edges) {
                edge = {rule_id(edge.rule), numbers[edge.target]};
            }
            numbers[index] = place(numbers[index], std::move(node));
        }
        return numbers[0];
    }

    // Fills the node `number`; if that is -1, shares the node that has these edges. An edge to the
    // node itself has the target -1 until then.
    std::int32_t place(std::int32_t number, FinishedNode node) {
        if (number < 0) {
            key_.assign(1, static_cast<std::uint64_t>(node.byte_edges.size()) << 1 | node.final);
            for (const ByteEdge& edge : node.byte_edges) {
                key_.push_back(static_cast<std::uint64_t>(edge.low) << 40 |
                               static_cast<std::uint64_t>(edge.high) << 32 |
                               static_cast<std::uint32_t>(edge.target));
            }
            for (const RuleEdge& edge : node.rule_edges) {
                key_.push_back(static_cast<std::uint64_t>(edge.rule) << 32 |
                               static_cast<std::uint32_t>(edge.target));
            }
            const Interner::Found found = keys_.intern(key_);
            if (!found.is_new) return node_of_key_[found.id];
            number = new_node();
            node_of_key_.push_back(number);
            for (ByteEdge& edge : node.byte_edges) {
                if (edge.target < 0) edge.target = number;
            }
            for (RuleEdge& edge : node.rule_edges) {
                if (edge.target < 0) edge.target = number;
            }
        }
        nodes_[number] = std::move(node);
        return number;
    }

    const Grammar& grammar_;
    const std::unordered_map<AtomId, std::vector<FinishedNode>>& automata_;
    std::vector<FinishedNode> nodes_;  // rules by their ids
    std::vector<std::string> names_;
    std::vector<std::int32_t> start_;
    std::int32_t root_ = 0;
    std::unordered_map<AtomId, std::int32_t> rule_ids_;
    std::unordered_map<std::int32_t, std::int32_t> rule_at_;  // by start node
    Interner keys_;
    std::vector<std::int32_t> node_of_key_;
    std::vector<std::uint64_t> key_;
};

}  // namespace

RawRules RuleArrays::raw() const {
    return {byte_begins.data(), byte_begins.size(), byte_edges.data(), byte_edges.size(),
            rule_begins.data(), rule_begins.size(), rule_edges.data(), rule_edges.size(),
            final.data(),       final.size(),       start.data(),      start.size(),
            root};
}

RuleArrays read_normal_form(std::string_view text, const ReadMacro& read_macro) {
    Grammar grammar = read_rules(text, read_macro);
    const AtomId root = grammar.rule("root");
    if (!grammar.defined(root)) throw NotPlain();
    for (AtomId rule : grammar.order) {
        for (AtomId callee : grammar.references(rule)) {
            if (!grammar.defined(callee)) throw NotPlain();
        }
    }
    fold_powers(grammar);
    split_long_repetition(grammar);
    const auto automata = RuleBuilder(grammar, root).build_all();
    Linker linker(grammar, automata);
    linker.link(root);
    return linker.finish();
}

}  // namespace lave
