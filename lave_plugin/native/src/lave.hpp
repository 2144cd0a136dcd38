// One denoising step of LAVE: the strategy of lave_plugin/strategies/lave.py, which is the reference
// and has the reasons. Both must write the same tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "posterior.hpp"
#include "search.hpp"
#include "token_automaton.hpp"

namespace lave {

struct LaveOptions {
    std::int64_t attempts;
    std::int64_t search_budget;
    double plausibility;
    bool forced_tokens;
    bool constrained_confidence;
};

// Where a step begins. Most need no more than the best token of each position; those that do stop,
// say what they need, and are taken up there.
enum class Stage : std::uint8_t {
    kBegin = 0,
    kRefused = 1,      // the proposals don't pass together
    kUncommitted = 2,  // they do, but none of them is a commit
    kForced = 3,       // all is written but what the grammar forces
};
enum class Need : std::uint8_t {
    kNothing = 0,
    kCandidates = 1,
    kToken = 2,  // for `position`, behind `here`, to be written by the caller
};

struct LaveRow {
    State state;              // before position `first`
    std::int64_t generation;  // of the automaton when the state was its
    Token* canvas;            // `block` tokens, kMasked where none is; written in place
    std::int64_t block;
    std::int64_t first;
    std::int64_t tokens_left;
    // By position. A proposed token is a commit where the canvas is masked, else an edit; kMasked
    // where none is. `best` has proposed commits, and the first candidate elsewhere.
    const Token* proposed;
    const Token* best;
    // `width` candidates of each position in the order to try them, with their probabilities; the
    // first negative id ends a list. Null where not yet known.
    const Token* candidates;
    const float* probabilities;
    std::int64_t width;
    double threshold;
    Stage stage;  // set to the one to go on at

    Need need = Need::kNothing;
    std::int64_t position = -1;
    State here = kDead;
    std::string error;
};

// The strategy's memory of one request.
class Lave {
public:
    Lave(std::shared_ptr<TokenAutomaton> tokens, LaveOptions options)
        : tokens(std::move(tokens)), options_(options) {}

    const std::shared_ptr<TokenAutomaton> tokens;

    void start_block();
    void step(LaveRow& row, Searcher& searcher, Posterior& posterior);

    // As the reference counts them.
    struct Counts {
        std::int64_t accepted = 0, refused = 0, recovered = 0, forced = 0, lookaheads = 0,
                     undecided = 0;
    };
    const Counts& counts() const { return counts_; }
    const std::vector<Token>& witness() const { return witness_; }
    const std::vector<std::int64_t>& forced() const { return forced_; }

private:
    using Choices = std::vector<Candidates>;  // by position

    void list_choices();
    bool look(const Choices& choices, bool fillers);
    bool agrees(std::int64_t position, Token token) const {
        return position < static_cast<std::int64_t>(witness_.size()) && witness_[position] == token;
    }
    bool is_masked(std::int64_t position) const { return row_->canvas[position] == kMasked; }
    bool proposes_commit(std::int64_t position) const;
    bool proposes_edit(std::int64_t position) const;

    bool write_all();
    Canvas canvas(const Choices& choices, bool fillers, Token* witness) const;
    void find_posterior();
    double confidence(std::int64_t position, std::int64_t rank);
    bool is_open(std::int64_t position) const;
    bool may_commit_more() const;
    bool commit_one_by_one(const Choices& choices, bool fillers);
    void edit_one_by_one();
    bool recover();
    bool commit_forced();
    Token forced_token(State state, std::int64_t position);
    void fill_behind_end();

    LaveOptions options_;
    Counts counts_;
    std::vector<Token> witness_;
    std::vector<std::int64_t> forced_;

    // Of the step that is being made.
    static constexpr Token kUnknownYet = -3;
    LaveRow* row_ = nullptr;
    Searcher* searcher_ = nullptr;
    Posterior* posterior_ = nullptr;
    bool is_posterior_current_ = false, has_posterior_ = false;
    std::vector<char> was_masked_;
    Choices first_, plausible_, all_;
    std::vector<Token> plausible_tokens_;
    std::vector<Token> before_, found_;
    std::vector<std::int64_t> refused_;
    std::vector<double> spent_;
};

// Steps of many rows, spread over threads. An exception in a row becomes its `error`.
void step_all(const std::vector<Lave*>& laves, std::vector<LaveRow>& rows, unsigned threads);

}  // namespace lave
