#include "rules.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "components.hpp"

namespace lave {

namespace {

void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

void require_index(std::int64_t index, std::size_t count, const char* what) {
    if (index < 0 || static_cast<std::uint64_t>(index) >= count) {
        throw std::invalid_argument(std::string(what) + " " + std::to_string(index) +
                                    " is out of range: there are " + std::to_string(count));
    }
}

std::vector<std::int32_t> copy_begins(const std::int32_t* begins, std::size_t count,
                                      std::size_t nodes, std::size_t edges, const char* what) {
    if (count != nodes + 1 || begins[0] != 0 ||
        static_cast<std::size_t>(begins[nodes]) != edges ||
        !std::is_sorted(begins, begins + count)) {
        throw std::invalid_argument(std::string("the offsets of the ") + what +
                                    " edges must rise from 0 to their number, one for each node"
                                    " and one more");
    }
    return {begins, begins + count};
}

}  // namespace

Rules::Rules(const RawRules& raw) {
    const std::size_t nodes = raw.final_count;
    const std::size_t limit = std::numeric_limits<std::int32_t>::max() / 4;
    require(nodes > 0 && raw.start_count > 0, "a grammar needs a node and a rule");
    require(nodes < limit && raw.start_count < limit && raw.byte_edges_count < limit &&
                raw.rule_edges_count < limit,
            "the grammar is too large");
    require(raw.byte_edges_count % 3 == 0, "byte edges are triples (low, high, target)");
    require(raw.rule_edges_count % 2 == 0, "rule edges are pairs (rule, target)");
    byte_begins_ = copy_begins(raw.byte_begins, raw.byte_begins_count, nodes,
                               raw.byte_edges_count / 3, "byte");
    rule_begins_ = copy_begins(raw.rule_begins, raw.rule_begins_count, nodes,
                               raw.rule_edges_count / 2, "rule");
    for (std::size_t at = 0; at < raw.byte_edges_count; at += 3) {
        const std::int32_t low = raw.byte_edges[at], high = raw.byte_edges[at + 1];
        require(0 <= low && low <= high && high <= 255, "a byte edge needs 0 <= low <= high <= 255");
        require_index(raw.byte_edges[at + 2], nodes, "node");
        byte_edges_.push_back({static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high),
                               raw.byte_edges[at + 2]});
    }
    for (std::size_t at = 0; at < raw.rule_edges_count; at += 2) {
        require_index(raw.rule_edges[at], raw.start_count, "rule");
        require_index(raw.rule_edges[at + 1], nodes, "node");
        rule_edges_.push_back({raw.rule_edges[at], raw.rule_edges[at + 1]});
    }
    for (std::size_t rule = 0; rule < raw.start_count; ++rule) {
        require_index(raw.start[rule], nodes, "node");
    }
    require_index(raw.root, raw.start_count, "rule");
    start_.assign(raw.start, raw.start + raw.start_count);
    root_ = static_cast<std::int32_t>(raw.root);
    read_token_edges(raw);
    for (std::size_t node = 0; node < nodes; ++node) {
        final_.push_back(raw.final[node] != 0);
        tail_.push_back(final_[node] && byte_begins_[node] == byte_begins_[node + 1] &&
                        rule_begins_[node] == rule_begins_[node + 1] &&
                        token_edges(static_cast<std::int32_t>(node)).empty());
    }
    token_budgets_ = read_budgets(raw.token_budgets, raw.token_budgets_count);
    character_budgets_ = read_budgets(raw.character_budgets, raw.character_budgets_count);
    distance_ = shortest_distances(raw);
    require_ends();
    count_characters();
    require_budgets();
    find_byte_classes();
}

void Rules::read_token_edges(const RawRules& raw) {
    const std::size_t nodes = raw.final_count;
    require(raw.token_edges_count % 3 == 0, "token edges are triples (node, set, target)");
    token_classes_ = TokenClasses(raw.token_sets);
    if (raw.token_edges_count > 0) token_begins_.assign(nodes + 1, 0);
    std::int32_t before = 0;
    for (std::size_t at = 0; at < raw.token_edges_count; at += 3) {
        require_index(raw.token_edges[at], nodes, "node");
        require_index(raw.token_edges[at + 1], raw.token_sets.size(), "token set");
        require_index(raw.token_edges[at + 2], nodes, "node");
        require(before <= raw.token_edges[at], "token edges must be in the order of their nodes");
        before = raw.token_edges[at];
        ++token_begins_[before + 1];
        token_edges_.push_back({raw.token_edges[at + 1], raw.token_edges[at + 2]});
    }
    std::partial_sum(token_begins_.begin(), token_begins_.end(), token_begins_.begin());
}

// By rule; empty where none has one.
std::vector<std::int32_t> Rules::read_budgets(const std::int32_t* pairs, std::size_t count) const {
    require(count % 2 == 0, "budgets are pairs (rule, how many)");
    std::vector<std::int32_t> budgets(count > 0 ? start_.size() : 0, kNoBudget);
    for (std::size_t at = 0; at < count; at += 2) {
        require_index(pairs[at], start_.size(), "rule");
        const std::int32_t most = pairs[at + 1];
        require(0 <= most && most < std::numeric_limits<std::int32_t>::max(),
                "a budget must not be negative");
        budgets[pairs[at]] = most;
    }
    return budgets;
}

// In the order of the distance, so that what a node's shortest ways lead to is there already.
void Rules::count_characters() {
    if (!counts_characters()) return;
    std::vector<std::int32_t> order(final_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [this](std::int32_t a, std::int32_t b) {
        return distance_[a] < distance_[b];
    });
    characters_.assign(final_.size(), std::numeric_limits<std::int32_t>::max());
    for (std::int32_t node : order) {
        if (distance_[node] == 0) characters_[node] = 0;
        for (const ByteEdge& edge : byte_edges(node)) {
            if (distance_[edge.target] + 1 != distance_[node]) continue;
            const bool within = 0x80 <= edge.high && edge.low <= 0xBF;
            const std::int64_t counted = std::int64_t{characters_[edge.target]} + !within;
            characters_[node] = static_cast<std::int32_t>(
                std::min<std::int64_t>(characters_[node], counted));
        }
    }
}

// Knuth 1977, Dijkstra for grammars: nodes are settled in the order of their distance. A rule edge
// counts once both the rule's start and the edge's target are settled. Computed here rather than
// taken from outside, so that no array can claim a completion that is not there.
std::vector<std::int64_t> shortest_distances(const RawRules& rules) {
    const std::size_t nodes = rules.final_count;
    const auto node_count = static_cast<std::int32_t>(nodes);
    // Sources of the byte and token edges into a node; rule edges by their target, and by their rule.
    std::vector<std::vector<std::int32_t>> byte_sources(nodes);
    std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> rule_sources(nodes);
    std::vector<std::vector<std::int32_t>> rules_at(nodes);
    std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> rule_uses(
        rules.start_count);
    for (std::int32_t node = 0; node < node_count; ++node) {
        for (std::int32_t at = rules.byte_begins[node]; at < rules.byte_begins[node + 1]; ++at) {
            byte_sources[rules.byte_edges[3 * at + 2]].push_back(node);
        }
        for (std::int32_t at = rules.rule_begins[node]; at < rules.rule_begins[node + 1]; ++at) {
            const std::int32_t rule = rules.rule_edges[2 * at];
            const std::int32_t target = rules.rule_edges[2 * at + 1];
            rule_sources[target].emplace_back(node, rule);
            rule_uses[rule].emplace_back(node, target);
        }
    }
    for (std::size_t at = 0; at < rules.token_edges_count; at += 3) {
        byte_sources[rules.token_edges[at + 2]].push_back(rules.token_edges[at]);
    }
    for (std::size_t rule = 0; rule < rules.start_count; ++rule) {
        rules_at[rules.start[rule]].push_back(static_cast<std::int32_t>(rule));
    }

    std::vector<std::int64_t> distance(nodes, kUnreachable);
    using Entry = std::pair<std::int64_t, std::int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
    auto offer = [&](std::int64_t length, std::int32_t node) {
        if (length < distance[node]) queue.emplace(length, node);
    };
    for (std::int32_t node = 0; node < node_count; ++node) {
        if (rules.final[node]) queue.emplace(0, node);
    }
    while (!queue.empty()) {
        const auto [length, node] = queue.top();
        queue.pop();
        if (distance[node] <= length) continue;
        distance[node] = length;
        for (std::int32_t source : byte_sources[node]) offer(length + 1, source);
        for (const auto& [source, rule] : rule_sources[node]) {
            const std::int64_t inner = distance[rules.start[rule]];
            if (inner < kUnreachable) offer(std::min(inner + length, kUnreachable), source);
        }
        for (std::int32_t rule : rules_at[node]) {
            for (const auto& [source, target] : rule_uses[rule]) {
                if (distance[target] < kUnreachable) {
                    offer(std::min(length + distance[target], kUnreachable), source);
                }
            }
        }
    }
    return distance;
}

// With this, every item can be completed, so every state that is not dead can be.
void Rules::require_ends() const {
    const char* message = "an edge leads to where nothing can end; leave such edges out";
    require(distance_[start_[root_]] < kUnreachable, "the grammar has no sentence");
    for (const ByteEdge& edge : byte_edges_) require(distance_[edge.target] < kUnreachable, message);
    for (const TokenEdge& edge : token_edges_) {
        require(distance_[edge.target] < kUnreachable, message);
    }
    for (const RuleEdge& edge : rule_edges_) {
        require(distance_[edge.target] < kUnreachable, message);
        require(distance_[start_[edge.rule]] < kUnreachable, message);
    }
}

// With this, an item that has a budget can end its rule within it.
void Rules::require_budgets() const {
    const char* too_small = "a budget is too small for the rule's shortest string";
    for (std::int32_t rule = 0; rule < rule_count(); ++rule) {
        if (!has_budget(rule)) continue;
        if (token_budget(rule) != kNoBudget) {
            require(distance_[start_[rule]] <= token_budget(rule), too_small);
        }
        const bool counts_characters = character_budget(rule) != kNoBudget;
        if (counts_characters) {
            require(characters_[start_[rule]] <= character_budget(rule), too_small);
        }
        std::vector<char> seen(final_.size());
        std::vector<std::int32_t> pending{start_[rule]};
        auto enter = [&](std::int32_t node) {
            if (!seen[node]) pending.push_back(node);
            seen[node] = 1;
        };
        while (!pending.empty()) {
            const std::int32_t node = pending.back();
            pending.pop_back();
            require(rule_edges(node).empty(), "a rule with a budget must refer to no other");
            require(!counts_characters || token_edges(node).empty(),
                    "a rule whose characters are counted must read no tokens as a whole");
            for (const ByteEdge& edge : byte_edges(node)) enter(edge.target);
            for (const TokenEdge& edge : token_edges(node)) enter(edge.target);
        }
    }
}

void Rules::find_byte_classes() {
    std::vector<std::pair<std::uint8_t, std::uint8_t>> ranges;
    for (const ByteEdge& edge : byte_edges_) ranges.emplace_back(edge.low, edge.high);
    if (counts_characters()) ranges.emplace_back(0x80, 0xBF);  // the bytes that begin none
    std::sort(ranges.begin(), ranges.end());
    ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
    std::array<int, 256> split_into;  // the class of those inside the range, by their old class
    for (const auto& [low, high] : ranges) {
        std::array<int, 256> inside{}, size{};
        for (int byte = 0; byte < 256; ++byte) {
            ++size[class_of_[byte]];
            inside[class_of_[byte]] += low <= byte && byte <= high;
        }
        split_into.fill(-1);
        for (int byte = low; byte <= high; ++byte) {
            const int old = class_of_[byte];
            if (inside[old] == size[old]) continue;
            if (split_into[old] < 0) split_into[old] = class_count_++;
        }
        for (int byte = low; byte <= high; ++byte) {
            const int old = class_of_[byte];
            if (split_into[old] >= 0) class_of_[byte] = static_cast<std::uint8_t>(split_into[old]);
        }
        if (class_count_ == 256) break;
    }
}

bool Rules::recursive() const {
    const auto count = static_cast<std::size_t>(rule_count());
    std::vector<std::vector<std::int32_t>> refers_to(count);
    std::vector<std::int32_t> seen_by(static_cast<std::size_t>(node_count()), -1), pending;
    for (std::int32_t rule = 0; rule < rule_count(); ++rule) {
        const auto reach = [&](std::int32_t node) {
            if (seen_by[node] == rule) return;
            seen_by[node] = rule;
            pending.push_back(node);
        };
        reach(start_[rule]);
        while (!pending.empty()) {
            const std::int32_t node = pending.back();
            pending.pop_back();
            for (const ByteEdge& edge : byte_edges(node)) reach(edge.target);
            for (const TokenEdge& edge : token_edges(node)) reach(edge.target);
            for (const RuleEdge& edge : rule_edges(node)) {
                if (edge.rule == rule) return true;
                refers_to[rule].push_back(edge.rule);
                reach(edge.target);
            }
        }
    }
    Components components;
    components.find(refers_to, count);
    return components.ends.size() < count;
}

}  // namespace lave
