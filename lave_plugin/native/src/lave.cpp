#include "lave.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "threads.hpp"

namespace lave {

void Lave::start_block() {
    witness_.clear();
    forced_.clear();
}

bool Lave::proposes_commit(std::int64_t position) const {
    return was_masked_[position] && row_->proposed[position] != kMasked;
}

bool Lave::proposes_edit(std::int64_t position) const {
    return !was_masked_[position] && row_->proposed[position] != kMasked &&
           std::find(forced_.begin(), forced_.end(), position) == forced_.end();
}

void Lave::step(LaveRow& row, Searcher& searcher, Posterior& posterior) {
    row_ = &row;
    searcher_ = &searcher;
    posterior_ = &posterior;
    row.need = Need::kNothing;
    is_posterior_current_ = false;
    if (row.stage != Stage::kForced) {
        was_masked_.assign(row.block, 0);
        bool owed = false, proposes_commits = false, writes = false;
        for (std::int64_t position = row.first; position < row.block; ++position) {
            was_masked_[position] = is_masked(position);
            owed = owed || is_masked(position);
            proposes_commits = proposes_commits || proposes_commit(position);
            writes = writes || proposes_commit(position) || proposes_edit(position);
        }
        list_choices();
        const bool all_accepted = row.stage == Stage::kUncommitted || !writes || write_all();
        bool committed = !owed || (all_accepted && proposes_commits);
        if ((!committed || !all_accepted) && row.candidates == nullptr) {
            row.stage = all_accepted ? Stage::kUncommitted : Stage::kRefused;
            row.need = Need::kCandidates;
            return;
        }
        if (!committed) committed = commit_one_by_one(plausible_, false);
        if (!all_accepted) edit_one_by_one();
        if (!committed) committed = commit_one_by_one(all_, true);
        if (!committed && !recover()) return;
        row.stage = Stage::kForced;
    } else {
        list_choices();
    }
    if (options_.forced_tokens && !commit_forced()) return;
    fill_behind_end();
}

// The first candidate, the plausible ones, and all, by position.
void Lave::list_choices() {
    const LaveRow& row = *row_;
    first_.resize(row.block);
    plausible_.resize(row.block);
    all_.resize(row.block);
    plausible_tokens_.resize(row.block * row.width);
    for (std::int64_t position = 0; position < row.block; ++position) {
        first_[position] = {row.best + position, 1};
        if (row.candidates == nullptr) continue;
        const Token* listed = row.candidates + position * row.width;
        const float* probabilities = row.probabilities + position * row.width;
        std::int64_t count = 0;
        while (count < row.width && listed[count] >= 0) ++count;
        Token* const plausible = plausible_tokens_.data() + position * row.width;
        std::int64_t plausible_count = 0;
        for (std::int64_t rank = 0; rank < count; ++rank) {
            if (rank == 0 || probabilities[rank] >= options_.plausibility) {
                plausible[plausible_count++] = listed[rank];
            }
        }
        plausible_[position] = {plausible, plausible_count};
        all_[position] = {listed, count};
    }
}

Canvas Lave::canvas(const Choices& choices, bool fillers, Token* witness) const {
    return {tokens.get(),  row_->state,       row_->generation, row_->canvas,
            row_->block,   row_->first,       row_->tokens_left, choices.data(),
            options_.search_budget, fillers,  witness};
}

bool Lave::look(const Choices& choices, bool fillers) {
    found_.assign(row_->block, kMasked);
    const Verdict verdict = searcher_->find_witness(canvas(choices, fillers, found_.data()));
    ++counts_.lookaheads;
    if (verdict == Verdict::kUndecided) ++counts_.undecided;
    if (verdict != Verdict::kAlive) return false;
    witness_.swap(found_);
    return true;
}

// At kRefused the first of its lookaheads has failed before.
bool Lave::write_all() {
    LaveRow& row = *row_;
    const bool is_wide = options_.plausibility < 0.5;
    const bool is_again = row.stage == Stage::kRefused;
    if (is_again && !is_wide) return false;
    before_.assign(row.canvas, row.canvas + row.block);
    bool as_in_witness = true;
    std::int64_t count = 0;
    for (std::int64_t position = row.first; position < row.block; ++position) {
        const bool edits = proposes_edit(position);
        if (!edits && !proposes_commit(position)) continue;
        row.canvas[position] = row.proposed[position];
        as_in_witness = as_in_witness && !edits && agrees(position, row.proposed[position]);
        ++count;
    }
    if ((!is_again && (as_in_witness || look(first_, false))) ||
        (is_wide && row.candidates != nullptr && look(plausible_, false))) {
        counts_.accepted += count;
        return true;
    }
    std::copy(before_.begin(), before_.end(), row.canvas);
    return false;
}

// Of the canvas as it stands. It costs more than all lookaheads of a step, so it waits until somebody
// asks.
void Lave::find_posterior() {
    if (is_posterior_current_) return;
    is_posterior_current_ = true;
    try {
        has_posterior_ =
            posterior_->compute(canvas(all_, false, nullptr), row_->probabilities, row_->width);
    } catch (const StatesExhausted&) {
        has_posterior_ = false;
    }
}

double Lave::confidence(std::int64_t position, std::int64_t rank) {
    const double probability = row_->probabilities[position * row_->width + rank];
    if (!options_.constrained_confidence) {
        return probability / std::max(1.0 - spent_[position], 1e-6);
    }
    find_posterior();
    return has_posterior_ ? std::min(probability, posterior_->of(position, rank)) : probability;
}

// Whether a candidate is left to try there.
bool Lave::is_open(std::int64_t position) const {
    return was_masked_[position] && is_masked(position) &&
           refused_[position] < all_[position].count;
}

// Whether a candidate is left that may go on beside the first: one that is proposed, or of which the
// model is sure enough. No posterior makes it surer.
bool Lave::may_commit_more() const {
    if (!options_.constrained_confidence) return true;
    for (std::int64_t position = row_->first; position < row_->block; ++position) {
        const std::int64_t rank = refused_[position];
        if (is_open(position) &&
            ((rank == 0 && proposes_commit(position)) ||
             row_->probabilities[position * row_->width + rank] > row_->threshold)) {
            return true;
        }
    }
    return false;
}

bool Lave::commit_one_by_one(const Choices& choices, bool fillers) {
    LaveRow& row = *row_;
    refused_.assign(row.block, 0);
    spent_.assign(row.block, 0.0);
    std::int64_t refusals_in_a_row = 0;
    bool committed = false;
    while (refusals_in_a_row < options_.attempts) {
        if (committed && !may_commit_more()) break;
        std::int64_t best = -1;
        bool best_proposed = false, best_goes_first = false;
        double best_confidence = 0.0;
        for (std::int64_t position = row.first; position < row.block; ++position) {
            if (!is_open(position)) continue;
            const std::int64_t rank = refused_[position];
            const double sure = confidence(position, rank);
            const bool proposed = rank == 0 && proposes_commit(position);
            const bool goes_first = proposed && !options_.constrained_confidence;
            if (best < 0 || goes_first > best_goes_first ||
                (goes_first == best_goes_first && sure > best_confidence)) {
                best = position;
                best_proposed = proposed;
                best_goes_first = goes_first;
                best_confidence = sure;
            }
        }
        if (best < 0) break;
        if (committed && !best_proposed && best_confidence <= row.threshold) break;
        const Token token = all_[best].tokens[refused_[best]];
        row.canvas[best] = token;
        if (agrees(best, token) || look(choices, fillers)) {
            ++counts_.accepted;
            committed = true;
            refusals_in_a_row = 0;
            is_posterior_current_ = false;
        } else {
            row.canvas[best] = kMasked;
            ++counts_.refused;
            spent_[best] += row.probabilities[best * row.width + refused_[best]];
            ++refused_[best];
            ++refusals_in_a_row;
        }
    }
    return committed;
}

void Lave::edit_one_by_one() {
    for (std::int64_t position = row_->first; position < row_->block; ++position) {
        if (!proposes_edit(position)) continue;
        const Token before = row_->canvas[position];
        row_->canvas[position] = row_->proposed[position];
        if (look(plausible_, false)) {
            is_posterior_current_ = false;
            ++counts_.accepted;
        } else {
            row_->canvas[position] = before;
            ++counts_.refused;
        }
    }
}

// False where the candidates are not enough.
bool Lave::recover() {
    LaveRow& row = *row_;
    std::int64_t position = row.first;
    State here = row.state;
    while (!is_masked(position)) here = tokens->advance(here, row.canvas[position++]);
    ++counts_.recovered;
    if (position < static_cast<std::int64_t>(witness_.size()) && witness_[position] != kMasked) {
        row.canvas[position] = witness_[position];
        return true;
    }
    const std::int64_t left =
        std::max<std::int64_t>(0, row.tokens_left - (position + 1 - row.first));
    const Candidates& near = all_[position];
    for (std::int64_t rank = 0; rank < near.count; ++rank) {
        const State following = tokens->advance(here, near.tokens[rank]);
        if (following != kDead && tokens->finishes_within(following, left)) {
            row.canvas[position] = near.tokens[rank];
            return true;
        }
    }
    row.need = Need::kToken;
    row.stage = Stage::kForced;
    row.position = position;
    row.here = here;
    return false;
}

// False where the candidates of a position have to be known.
bool Lave::commit_forced() {
    LaveRow& row = *row_;
    State here = row.state;
    for (std::int64_t position = row.first; position < row.block; ++position) {
        if (is_masked(position)) {
            const Token token = forced_token(here, position);
            if (token == kNoToken) return true;
            bool fits = false;
            if (token != kUnknownYet) {
                row.canvas[position] = token;
                fits = agrees(position, token) || look(first_, false) ||
                       (row.candidates != nullptr && look(all_, true));
            }
            if (!fits) {
                row.canvas[position] = kMasked;
                if (row.candidates != nullptr) return true;
                row.need = Need::kCandidates;
                return false;
            }
            forced_.push_back(position);
            ++counts_.forced;
        }
        here = tokens->advance(here, row.canvas[position]);
    }
    return true;
}

Token Lave::forced_token(State state, std::int64_t position) {
    const Vocabulary& vocabulary = *tokens->vocabulary;
    if (tokens->only_end(state)) return vocabulary.end_token();
    if (!tokens->is_forced(state)) return kNoToken;
    const std::string forced = tokens->forced_bytes(state);
    const Candidates& listed = row_->candidates == nullptr ? first_[position] : all_[position];
    for (std::int64_t rank = 0; rank < listed.count; ++rank) {
        const Token token = listed.tokens[rank];
        if (tokens->advance(state, token) == kDead) continue;
        return vocabulary.bytes_of(token).count <= forced.size() ? token : kNoToken;
    }
    if (row_->candidates == nullptr) return kUnknownYet;
    const auto spelling = vocabulary.spelling(forced);
    return spelling && !spelling->empty() ? spelling->front() : kNoToken;
}

void Lave::fill_behind_end() {
    const Vocabulary& vocabulary = *tokens->vocabulary;
    bool has_ended = false;
    for (std::int64_t position = row_->first; position < row_->block; ++position) {
        Token& token = row_->canvas[position];
        if (has_ended && token == kMasked) token = vocabulary.end_token();
        has_ended = has_ended || (token >= 0 && token < vocabulary.size() && vocabulary.is_end(token));
    }
}

void step_all(const std::vector<Lave*>& laves, std::vector<LaveRow>& rows, unsigned threads) {
    std::vector<Automaton*> automata;
    for (const Lave* lave : laves) automata.push_back(lave->tokens->automaton.get());
    for_each_automaton(automata, threads, [&](const std::vector<std::size_t>& group) {
        Searcher searcher;
        Posterior posterior;
        for (std::size_t at : group) {
            try {
                if (rows[at].generation != automata[at]->generation()) {
                    throw std::out_of_range("the states were flushed during the call");
                }
                laves[at]->step(rows[at], searcher, posterior);
            } catch (const std::exception& error) {
                rows[at].error = error.what();
            }
        }
    });
}

}  // namespace lave
