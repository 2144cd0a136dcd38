// The syntax tree of xgrammar's printed normal form, for the grammars that most requests have.
//
// This reads what is plain: rules of choices of sequences. The automata of a macro come from Python.
// Whatever else there is (attributes, escapes and layouts that xgrammar doesn't print today) it gives
// up on, by throwing NotPlain, and leaves to the Python reader, which knows the rest and has the
// messages. So nothing is ever read in two ways: the two readers give the same automata, node for
// node.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rules.hpp"

namespace lave {

struct NotPlain {};

using CodePointRange = std::pair<std::int32_t, std::int32_t>;

enum class AtomKind : std::uint8_t { kText, kClass, kRule };

// Atoms are interned: equal content, equal number.
using AtomId = std::int32_t;
struct Atom {
    AtomKind kind;
    std::string text;                    // kText: UTF-8; kRule: the name
    std::vector<CodePointRange> ranges;  // kClass: sorted, not touching
};

constexpr std::int64_t kUnbounded = -1;

// An atom, or a repetition of one. `is_repeat` tells x{1,1} from x, which are not the same element.
struct Element {
    AtomId atom;
    bool is_repeat;
    std::int64_t low, high;

    static Element one(AtomId atom) { return {atom, false, 1, 1}; }
    static Element repeat(AtomId atom, std::int64_t low, std::int64_t high) {
        return {atom, true, low, high};
    }
    bool operator==(const Element& other) const {
        return atom == other.atom && is_repeat == other.is_repeat && low == other.low &&
               high == other.high;
    }
    bool operator!=(const Element& other) const { return !(*this == other); }
};

using Sequence = std::vector<Element>;
using Body = std::vector<Sequence>;

// A node of a finished automaton; rules are named by their atoms.
struct FinishedNode {
    bool final = false;
    std::vector<ByteEdge> byte_edges;
    std::vector<RuleEdge> rule_edges;
};

// The body of a rule that is no choice: `TagDispatch(...)` or `Regex(...)`.
struct Macro {
    std::string key;                 // equal for macros that say the same
    std::vector<AtomId> references;  // rules of the grammar that it dispatches to
    // Its automata by rule; those of rules beside its own are parts of a regular expression.
    std::vector<std::pair<AtomId, std::vector<FinishedNode>>> parts;
};

class Grammar {
public:
    // Rules in the order of the text.
    std::vector<AtomId> order;
    // A rule is in one of the two.
    std::unordered_map<AtomId, Body> bodies;
    std::unordered_map<AtomId, Macro> macros;

    AtomId rule(std::string_view name) { return intern('r', std::string(name), {}); }
    AtomId text(std::string data) { return intern('t', std::move(data), {}); }
    AtomId char_class(std::vector<CodePointRange> ranges) {
        return intern('c', {}, std::move(ranges));
    }
    const Atom& atom(AtomId id) const { return atoms_[id]; }
    bool is_rule(AtomId id) const { return atoms_[id].kind == AtomKind::kRule; }
    // Whether the element is a reference to the rule, not a repetition of it.
    static bool refers_to(const Element& element, AtomId rule) {
        return !element.is_repeat && element.atom == rule;
    }
    bool is_macro(AtomId rule) const { return macros.count(rule) != 0; }
    bool defined(AtomId rule) const { return bodies.count(rule) != 0 || is_macro(rule); }
    // Rules that the rule refers to, with repetition, in order.
    std::vector<AtomId> references(AtomId rule) const;

private:
    AtomId intern(char kind, std::string text, std::vector<CodePointRange> ranges);

    std::vector<Atom> atoms_;
    std::unordered_map<std::string, AtomId> ids_;
};

using ReadMacro = std::function<Macro(Grammar&, AtomId rule, std::string_view source)>;

// Reads `str(compiled.grammar)`.
Grammar read_rules(std::string_view text, const ReadMacro& read_macro);

}  // namespace lave
