#include "notation.hpp"

#include <algorithm>

#include "utf8.hpp"

namespace lave {

namespace {

constexpr std::int64_t kLargestBound = 1'000'000'000;

[[noreturn]] void give_up() { throw NotPlain(); }
void require(bool plain) {
    if (!plain) give_up();
}

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_letter(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }
// What the names of rules that xgrammar makes or takes consist of.
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.'; }

class Reader {
public:
    Reader(std::string_view text, const ReadMacro& read_macro)
        : text_(text), read_macro_(read_macro) {}

    Grammar read() {
        while (at_ < text_.size()) {
            if (text_[at_] == '\n') {
                ++at_;
                continue;
            }
            const AtomId rule = read_header();
            require(!grammar_.defined(rule));
            grammar_.order.push_back(rule);
            if (starts("TagDispatch(") || starts("Regex(")) {
                grammar_.macros[rule] = read_macro_(grammar_, rule, read_lines());
            } else {
                grammar_.bodies[rule] = read_body();
            }
        }
        return std::move(grammar_);
    }

private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool starts(std::string_view word) const { return text_.substr(at_, word.size()) == word; }
    char next() {
        require(at_ < text_.size());
        return text_[at_++];
    }

    AtomId read_header() {
        const std::string_view name = read_name();
        const std::string_view sign = " ::= ";
        require(starts(sign));
        at_ += sign.size();
        return grammar_.rule(name);
    }

    std::string_view read_name() {
        const std::size_t from = at_;
        while (is_name(peek())) ++at_;
        require(at_ > from);
        return text_.substr(from, at_ - from);
    }

    // To the end of the line, and the lines behind it that go on with a macro.
    std::string_view read_lines() {
        const std::size_t from = at_;
        do {
            at_ = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
        } while (peek() == ' ' || peek() == ')');
        return text_.substr(from, at_ - from);
    }

    // `((a b) | (c))`: the outer pair of parentheses, then alternatives split by bars.
    Body read_body() {
        Body alternatives;
        Sequence sequence;
        int depth = 0;
        require(peek() == '(' && !starts("(="));
        while (at_ < text_.size() && text_[at_] != '\n') {
            const char c = text_[at_];
            if (c == ' ') {
                ++at_;
            } else if (starts("(=")) {
                require(depth == 0);
                skip_hint();
            } else if (depth == 0 && !alternatives.empty()) {
                give_up();
            } else if (c == '"') {
                const std::string data = read_string();
                const Element element = read_postfix(grammar_.text(data));
                // The empty string is empty, however often.
                if (!data.empty()) sequence.push_back(element);
            } else if (c == '[') {
                sequence.push_back(read_postfix(read_class()));
            } else if (c == '(') {
                require(depth < 2);
                ++at_;
                ++depth;
            } else if (c == ')') {
                ++at_;
                if (--depth == 0) alternatives.push_back(sequence);
            } else if (c == '|') {
                require(depth == 1);
                ++at_;
                alternatives.push_back(std::move(sequence));
                sequence.clear();
            } else {
                const std::string_view name = read_name();
                require(peek() != '(');  // a macro
                sequence.push_back(read_postfix(grammar_.rule(name)));
            }
        }
        require(depth == 0);
        return alternatives;
    }

    // An atom as often as what stands right behind it says.
    Element read_postfix(AtomId atom) {
        if (peek() == '*') {
            ++at_;
            return Element::repeat(atom, 0, kUnbounded);
        }
        if (peek() != '{') return Element::one(atom);
        ++at_;
        const std::int64_t low = read_number();
        require(next() == ',');
        while (peek() == ' ') ++at_;
        const bool unbounded = peek() == '-';
        if (unbounded) ++at_;
        const std::int64_t high = read_number();
        require(next() == '}');
        require(unbounded ? high > 0 : high >= low);
        return Element::repeat(atom, low, unbounded ? kUnbounded : high);
    }

    std::int64_t read_number() {
        require(is_digit(peek()));
        std::int64_t number = 0;
        while (is_digit(peek())) {
            number = 10 * number + (next() - '0');
            require(number <= kLargestBound);
        }
        return number;
    }

    // `(=...)` is a hint for xgrammar's mask cache and says nothing about the language.
    void skip_hint() {
        int depth = 0;
        do {
            const char c = next();
            require(c != '\n');
            if (c == '(') require(++depth <= 3);
            if (c == ')') --depth;
            if (c == '"' || c == '[') {
                const char end = c == '"' ? '"' : ']';
                for (char inside; (inside = next()) != end;) {
                    if (inside == '\\') next();
                }
            }
        } while (depth > 0);
    }

    std::string read_string() {
        std::string data;
        ++at_;
        while (peek() != '"') {
            if (peek() == '\\') {
                append_utf8(data, read_escape());
            } else {
                require(peek() != '\n');
                data.push_back(next());
            }
        }
        ++at_;
        return data;
    }

    // An escape stands for a code point, not for a byte.
    std::int32_t read_escape() {
        require(next() == '\\');
        const char c = next();
        switch (c) {
            case 'x': return read_hex(2);
            case 'u': return read_hex(4);
            case 'U': return read_hex(8);
            case 'a': return '\a';
            case 'b': return '\b';
            case 'e': return 0x1b;
            case 'f': return '\f';
            case 'n': return '\n';
            case 'r': return '\r';
            case 't': return '\t';
            case 'v': return '\v';
            case '0': return 0;
            default: break;
        }
        require(!is_letter(c) && !is_digit(c) && c != '\n' && static_cast<unsigned char>(c) < 0x80);
        return c;
    }

    std::int32_t read_hex(int digits) {
        std::int64_t number = 0;
        for (int digit = 0; digit < digits; ++digit) {
            const char c = next();
            require(is_digit(c) || ('a' <= c && c <= 'f'));
            number = 16 * number + (is_digit(c) ? c - '0' : c - 'a' + 10);
        }
        require(number <= kMaxCodePoint && !(0xD800 <= number && number <= 0xDFFF));
        return static_cast<std::int32_t>(number);
    }

    AtomId read_class() {
        ++at_;
        const bool negated = peek() == '^';
        if (negated) ++at_;
        std::vector<CodePointRange> ranges;
        while (peek() != ']') {
            const std::int32_t low = read_class_character();
            std::int32_t high = low;
            if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
                ++at_;
                high = read_class_character();
            }
            require(low <= high);
            ranges.emplace_back(low, high);
        }
        ++at_;
        ranges = normalise_ranges(std::move(ranges));
        return grammar_.char_class(negated ? complement(ranges) : std::move(ranges));
    }

    std::int32_t read_class_character() {
        require(at_ < text_.size() && peek() != '\n');
        return peek() == '\\' ? read_escape() : read_utf8();
    }

    std::int32_t read_utf8() {
        const auto lead = static_cast<unsigned char>(next());
        if (lead < 0x80) return lead;
        require(0xC2 <= lead && lead <= 0xF4);
        const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        std::int32_t character = lead & (0x3F >> more);
        for (int count = 0; count < more; ++count) {
            const auto byte = static_cast<unsigned char>(next());
            require((byte & 0xC0) == 0x80);
            character = character << 6 | (byte & 0x3F);
        }
        return character;
    }

    std::string_view text_;
    const ReadMacro& read_macro_;
    std::size_t at_ = 0;
    Grammar grammar_;
};

}  // namespace

AtomId Grammar::intern(char kind, std::string text, std::vector<CodePointRange> ranges) {
    std::string key(1, kind);
    key += text;
    key.append(reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(ranges[0]));
    const auto [place, is_new] = ids_.emplace(std::move(key), static_cast<AtomId>(atoms_.size()));
    if (is_new) {
        const AtomKind which = kind == 'r'   ? AtomKind::kRule
                               : kind == 't' ? AtomKind::kText
                                             : AtomKind::kClass;
        atoms_.push_back({which, std::move(text), std::move(ranges)});
    }
    return place->second;
}

std::vector<AtomId> Grammar::references(AtomId rule) const {
    const auto macro = macros.find(rule);
    if (macro != macros.end()) return macro->second.references;
    std::vector<AtomId> found;
    for (const Sequence& sequence : bodies.at(rule)) {
        for (const Element& element : sequence) {
            if (is_rule(element.atom)) found.push_back(element.atom);
        }
    }
    return found;
}

Grammar read_rules(std::string_view text, const ReadMacro& read_macro) {
    return Reader(text, read_macro).read();
}

}  // namespace lave
