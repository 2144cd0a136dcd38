#include "powers.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace lave {

namespace {

// Far from overflow, and no text is as long.
constexpr std::int64_t kLargestSum = std::int64_t{1} << 40;

using Powers = std::unordered_map<AtomId, Element>;

bool is_exactly_one(const Element& power) { return power.low == 1 && power.high == 1; }

// An alias, an option, a star, a plus: substituted for every reference to its rule.
bool is_small(const Element& power) {
    return power.low <= 1 && (power.high == 1 || power.high == kUnbounded);
}

class Folder {
public:
    explicit Folder(Grammar& grammar) : grammar_(grammar), nothing_(grammar.rule("")) {}

    void fold() {
        std::unordered_map<AtomId, Body> folded;
        std::unordered_map<std::string, AtomId> first_with;
        for (AtomId rule : callees_first()) {
            const bool is_macro = grammar_.is_macro(rule);
            if (!is_macro) {
                const Body& body = grammar_.bodies.at(rule);
                if (const auto power = power_of_body(rule, body)) {
                    powers_[rule] = *power;
                    folded[rule] = {power->high == 0 ? Sequence() : Sequence{*power}};
                    continue;
                }
                folded[rule] = substitute(body);
            }
            // Schemas repeat themselves: a rule that says the same as an earlier one is its alias.
            std::string key = is_macro ? 'm' + grammar_.macros.at(rule).key
                                       : 'b' + key_of(folded[rule]);
            const AtomId first = first_with.emplace(std::move(key), rule).first->second;
            if (first != rule) powers_[rule] = Element::repeat(first, 1, 1);
        }
        for (const auto& [rule, body] : folded) grammar_.bodies[rule] = substitute(body);
    }

private:
    // Depth-first post-order over the references.
    std::vector<AtomId> callees_first() {
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
            path.push_back({rule, grammar_.references(rule), 0});
        };
        for (AtomId root : grammar_.order) {
            if (visited.count(root)) continue;
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
        }
        return order;
    }

    static std::string key_of(const Body& body) {
        std::vector<std::int64_t> words;
        for (const Sequence& sequence : body) {
            words.push_back(static_cast<std::int64_t>(sequence.size()));
            for (const Element& element : sequence) {
                words.insert(words.end(),
                             {element.atom, element.is_repeat, element.low, element.high});
            }
        }
        return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0])};
    }

    std::optional<Element> power_of_body(AtomId rule, const Body& body) const {
        std::vector<Element> counts;
        std::vector<const Sequence*> loops;
        for (const Sequence& sequence : body) {
            if (!sequence.empty() && Grammar::refers_to(sequence.back(), rule)) {
                loops.push_back(&sequence);
                continue;
            }
            const auto count = power_of_sequence(sequence);
            if (!count || count->atom == rule) return std::nullopt;
            counts.push_back(*count);
        }
        if (counts.empty()) return std::nullopt;
        const std::optional<Element> result = united(std::move(counts));
        if (loops.empty() || !result) return result;
        // rule ::= x rule | x{low,high} is x{low,}, provided that the loop adds one x at a time.
        std::optional<Element> step;
        for (const Sequence* loop : loops) {
            const auto another = power_of_sequence({loop->begin(), loop->end() - 1});
            if (!another || !is_exactly_one(*another) || (step && *step != *another)) {
                return std::nullopt;
            }
            step = another;
        }
        if (result->high == 0) return Element::repeat(step->atom, 0, kUnbounded);
        if (step->atom != result->atom) return std::nullopt;
        return Element::repeat(step->atom, result->low, kUnbounded);
    }

    // x x{0,3} x as x{2,5}; the empty sequence is the zeroth power of nothing in particular.
    std::optional<Element> power_of_sequence(const Sequence& sequence) const {
        if (sequence.empty()) return Element::repeat(nothing_, 0, 0);
        const Sequence merged = merge_neighbours(sequence, false);
        if (merged.size() != 1) return std::nullopt;
        return Element::repeat(merged[0].atom, merged[0].low, merged[0].high);
    }

    // x{0,0} | x{1,127} | x{128,500} as x{0,500}, where no count is missing in between.
    static std::optional<Element> united(std::vector<Element> counts) {
        std::optional<AtomId> element;
        for (const Element& count : counts) {
            if (count.high == 0) continue;
            if (element && *element != count.atom) return std::nullopt;
            element = count.atom;
        }
        std::stable_sort(counts.begin(), counts.end(),
                         [](const Element& a, const Element& b) { return a.low < b.low; });
        std::int64_t high = counts[0].high;
        for (std::size_t at = 1; at < counts.size() && high != kUnbounded; ++at) {
            if (counts[at].low > high + 1) return std::nullopt;
            high = counts[at].high == kUnbounded ? kUnbounded : std::max(high, counts[at].high);
        }
        return Element::repeat(element.value_or(counts[0].atom), counts[0].low, high);
    }

    Body substitute(const Body& body) const {
        Body result;
        for (const Sequence& sequence : body) result.push_back(merge_neighbours(sequence, true));
        return result;
    }

    // Replaces references to powers and merges x{a,b} x{c,d} into x{a+c,b+d}.
    Sequence merge_neighbours(const Sequence& sequence, bool small_only) const {
        Sequence merged;
        for (const Element& element : sequence) {
            const Element power = resolve(element, small_only);
            if (!merged.empty() && merged.back().atom == power.atom) {
                Element& last = merged.back();
                const bool bounded = last.high != kUnbounded && power.high != kUnbounded;
                last = Element::repeat(last.atom, last.low + power.low,
                                       bounded ? last.high + power.high : kUnbounded);
                if (last.low > kLargestSum || last.high > kLargestSum) throw NotPlain();
            } else if (!power.is_repeat || power.high != 0) {
                merged.push_back(power);
            }
        }
        return merged;
    }

    // Follows a reference, or the reference inside a repetition, to the power behind it.
    Element resolve(const Element& element, bool small_only) const {
        if (!grammar_.is_rule(element.atom)) return element;
        const auto found = powers_.find(element.atom);
        if (found == powers_.end()) return element;
        const Element& power = found->second;
        if (element.is_repeat) {
            if (!is_exactly_one(power)) return element;
            return Element::repeat(power.atom, element.low, element.high);
        }
        if (small_only && !is_small(power)) return element;
        return is_exactly_one(power) ? Element::one(power.atom) : power;
    }

    Grammar& grammar_;
    const AtomId nothing_;
    Powers powers_;
};

// --- repetition.py --------------------------------------------------------------------------------

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kMaxCopiesOfClass = 8;

std::int64_t bound(const Element& repeat) {
    return repeat.high == kUnbounded ? repeat.low : repeat.high;
}

// Added rules are named as in the reference: the order of names is the order of edges.
std::string quoted(const std::string& text) {
    const bool has_single = text.find('\'') != std::string::npos;
    const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
    static const char* const kHex = "0123456789abcdef";
    std::string result(1, quote);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == quote || c == '\\') result += {'\\', c};
        else if (c == '\n') result += "\\n";
        else if (c == '\r') result += "\\r";
        else if (c == '\t') result += "\\t";
        else if (byte < 0x20 || byte >= 0x7F) result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        else result.push_back(c);
    }
    return result + quote;
}

std::string name_of(const Atom& atom) {
    if (atom.kind == AtomKind::kRule) return "RuleRef(name=" + quoted(atom.text) + ")";
    if (atom.kind == AtomKind::kText) return "Text(data=b" + quoted(atom.text) + ")";
    std::string ranges;
    for (const auto& [low, high] : atom.ranges) {
        if (!ranges.empty()) ranges += ", ";
        ranges += "(" + std::to_string(low) + ", " + std::to_string(high) + ")";
    }
    return "CharClass(ranges=(" + ranges + (atom.ranges.size() == 1 ? ",))" : "))");
}

class Splitter {
public:
    explicit Splitter(Grammar& grammar) : grammar_(grammar) {}

    void split() {
        const std::vector<AtomId> rules = grammar_.order;
        for (AtomId rule : rules) {
            if (grammar_.is_macro(rule)) continue;
            for (Sequence& sequence : grammar_.bodies[rule]) {
                for (Element& element : sequence) element = in_short(element);
            }
        }
    }

private:
    // Recursion is as deep as the bound has digits to the base 64.
    Element in_short(Element element) {
        if (!element.is_repeat) return element;
        element.atom = class_as_rule(element);
        if (bound(element) <= kBlock) return element;
        const std::string name =
            "Repeat(element=" + name_of(grammar_.atom(element.atom)) +
            ", low=" + std::to_string(element.low) + ", high=" +
            (element.high == kUnbounded ? "None" : std::to_string(element.high)) + ")";
        return added(name, [this, element] { return in_blocks(element); });
    }

    AtomId class_as_rule(const Element& repeat) {
        const Atom& inner = grammar_.atom(repeat.atom);
        if (inner.kind != AtomKind::kClass || bound(repeat) <= kMaxCopiesOfClass ||
            inner.ranges.empty() || inner.ranges.back().second <= 0x7F) {
            return repeat.atom;
        }
        const AtomId atom = repeat.atom;
        return added(name_of(inner), [atom] { return Body{{Element::one(atom)}}; }).atom;
    }

    // x{low,high} as x{low} x{0,high-low}, each in blocks.
    Body in_blocks(const Element& repeat) {
        const AtomId inner = repeat.atom;
        const std::string name = name_of(grammar_.atom(inner));
        const Element whole = added(name + "{64}", [inner] {
            return Body{{Element::repeat(inner, kBlock, kBlock)}};
        });
        Sequence prefix;
        append_copies(prefix, whole.atom, repeat.low / kBlock, repeat.low / kBlock);
        append_copies(prefix, inner, repeat.low % kBlock, repeat.low % kBlock);
        if (repeat.high == kUnbounded) {
            prefix.push_back(Element::repeat(inner, 0, kUnbounded));
            return {prefix};
        }
        const std::int64_t blocks = (repeat.high - repeat.low) / kBlock;
        const std::int64_t rest = (repeat.high - repeat.low) % kBlock;
        if (blocks == 0) {
            append_copies(prefix, inner, 0, rest);
            return {prefix};
        }
        const Element part = added(name + "{<64}", [inner] {
            return Body{{Element::repeat(inner, 0, kBlock - 1)}};
        });
        Sequence fewer = prefix, most = prefix;
        append_copies(fewer, whole.atom, 0, blocks - 1);
        fewer.push_back(part);
        append_copies(most, whole.atom, blocks, blocks);
        append_copies(most, inner, 0, rest);
        return {fewer, most};
    }

    void append_copies(Sequence& sequence, AtomId atom, std::int64_t low, std::int64_t high) {
        if (high != 0) sequence.push_back(in_short(Element::repeat(atom, low, high)));
    }

    Element added(const std::string& name, const std::function<Body()>& body) {
        const AtomId rule = grammar_.rule(name);
        if (!grammar_.defined(rule)) {
            grammar_.order.push_back(rule);
            grammar_.bodies[rule];  // reserve the place in the order
            Body made = body();
            grammar_.bodies[rule] = std::move(made);
        }
        return Element::one(rule);
    }

    Grammar& grammar_;
};

}  // namespace

void fold_powers(Grammar& grammar) { Folder(grammar).fold(); }

void split_long_repetition(Grammar& grammar) { Splitter(grammar).split(); }

}  // namespace lave
