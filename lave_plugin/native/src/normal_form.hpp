// From xgrammar's printed normal form to one byte automaton for each rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "notation.hpp"
#include "rules.hpp"

namespace lave {

// Rules before anyone has looked at them, in the form that RawRules points into.
struct RuleArrays {
    std::vector<std::string> names;
    std::vector<std::int32_t> byte_begins, byte_edges, rule_begins, rule_edges, start;
    std::vector<std::uint8_t> final;
    std::int64_t root = 0;

    RawRules raw() const;
};

// What lave_plugin/grammar/normal_form.py makes of the text, node for node. Throws NotPlain where
// the text is to be left to that reader (see notation.hpp), a grammar without a sentence included.
RuleArrays read_normal_form(std::string_view text, const ReadMacro& read_macro);

}  // namespace lave
