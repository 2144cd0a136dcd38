// Tokens that no set of a grammar tells apart are one class.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace lave {

// One token as a whole: one of `ids`, or any token of text but those.
struct TokenSet {
    std::vector<std::int32_t> ids;
    bool excluded;
};

// Class 2 * signature + is_text, where a signature stands for the sets that list the token; 0 for
// the tokens that none does.
class TokenClasses {
public:
    TokenClasses() : TokenClasses(std::vector<TokenSet>{}) {}
    explicit TokenClasses(const std::vector<TokenSet>& sets) {
        for (std::size_t set = 0; set < sets.size(); ++set) {
            for (std::int32_t token : sets[set].ids) {
                auto& listed = listed_in_[token];
                if (listed.empty() || listed.back() != set) listed.push_back(set);
            }
        }
        std::map<std::vector<std::size_t>, std::int32_t> signatures{{{}, 0}};
        add_class(sets, {});
        for (const auto& [token, listed] : listed_in_) {
            const auto [place, is_new] =
                signatures.emplace(listed, static_cast<std::int32_t>(signatures.size()));
            if (is_new) add_class(sets, listed);
            signature_of_[token] = place->second;
        }
    }

    // The class of a token that doesn't end the text.
    std::int32_t class_of(std::int32_t token, bool is_text) const {
        const auto found = signature_of_.find(token);
        return 2 * (found == signature_of_.end() ? 0 : found->second) + is_text;
    }
    std::int32_t count() const { return static_cast<std::int32_t>(read_by_.size()); }
    bool reads(std::int32_t set, std::int32_t token_class) const {
        return read_by_[token_class][set];
    }
    std::int32_t set_count() const { return static_cast<std::int32_t>(read_by_[0].size()); }
    bool is_listed(std::int32_t token) const { return signature_of_.count(token) != 0; }
    // The listed tokens, in ascending order, with the sets that list them.
    const std::map<std::int32_t, std::vector<std::size_t>>& listed() const { return listed_in_; }

private:
    void add_class(const std::vector<TokenSet>& sets, const std::vector<std::size_t>& listed) {
        for (const bool is_text : {false, true}) {
            std::vector<char> reads(sets.size());
            for (std::size_t set = 0; set < sets.size(); ++set) {
                reads[set] = sets[set].excluded && is_text;
            }
            for (std::size_t set : listed) reads[set] = !sets[set].excluded;
            read_by_.push_back(std::move(reads));
        }
    }

    std::map<std::int32_t, std::vector<std::size_t>> listed_in_;
    std::unordered_map<std::int32_t, std::int32_t> signature_of_;
    std::vector<std::vector<char>> read_by_;  // by class and set
};

}  // namespace lave
