#include "search.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace lave {

Verdict Searcher::find_witness(const Canvas& row) {
    try {
        return search(row);
    } catch (const StatesExhausted&) {
        return Verdict::kUndecided;  // a budget, like that of steps
    }
}

Verdict Searcher::search(const Canvas& row) {
    TokenAutomaton& tokens = *row.tokens;
    std::int64_t last = row.length - 1;
    while (last >= row.first && row.canvas[last] == kMasked) --last;
    failed_.clear();
    stack_.clear();
    // No text is as long as this; so nothing below can overflow.
    const std::int64_t tokens_left = std::max(row.tokens_left, -kUnreachable);
    std::int64_t tried = 0;
    stack_.push_back({row.first, row.state, 0});
    while (!stack_.empty()) {
        const Frame frame = stack_.back();
        stack_.pop_back();
        const auto [position, here, begin] = frame;
        if (position > last) return Verdict::kAlive;
        const bool masked = row.canvas[position] == kMasked;
        const Candidates listed =
            masked ? row.candidates[position] : Candidates{row.canvas + position, 1};
        const std::int64_t left = tokens_left - (position + 1 - row.first);
        bool found = false;
        for (std::int64_t at = begin;; ++at) {
            Token token;
            if (at < listed.count) {
                token = listed.tokens[at];
            } else if (masked) {
                // Asked for only now: most searches never need them, and they unfold states.
                const TokenAutomaton::Tokens fillers =
                    row.fillers ? tokens.fillers(here)
                                : TokenAutomaton::Tokens{tokens.vocabulary->end_tokens().data(), 1};
                if (at - listed.count >= static_cast<std::int64_t>(fillers.count)) break;
                token = fillers.first[at - listed.count];
            } else {
                break;
            }
            ++tried;
            const State following = tokens.advance(here, token);
            if (following != kDead && tokens.finishes_within(following, left) &&
                !failed_.contains(make_item(static_cast<std::int32_t>(position + 1), following))) {
                if (masked) row.witness[position] = token;
                stack_.push_back({position, here, at + 1});
                stack_.push_back({position + 1, following, 0});
                found = true;
                break;
            }
            if (tried >= row.budget) return Verdict::kUndecided;
        }
        if (!found) failed_.insert(make_item(static_cast<std::int32_t>(position), here));
    }
    return Verdict::kRefuted;
}

void find_witnesses(const std::vector<Canvas>& rows, Verdict* verdicts, unsigned threads) {
    std::vector<std::vector<std::size_t>> groups;
    std::map<const Automaton*, std::size_t> group_of;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const Automaton* automaton = rows[row].tokens->automaton.get();
        const auto [place, is_new] = group_of.emplace(automaton, groups.size());
        if (is_new) groups.emplace_back();
        groups[place->second].push_back(row);
    }
    // The largest first, so that no thread begins with it when the others are done.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });

    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> errors(groups.size());
    auto work = [&] {
        Searcher searcher;
        for (std::size_t at; (at = next.fetch_add(1)) < groups.size();) {
            try {
                const std::lock_guard<std::mutex> lock(
                    rows[groups[at][0]].tokens->automaton->mutex);
                for (std::size_t row : groups[at]) {
                    if (rows[row].generation != rows[row].tokens->automaton->generation()) {
                        throw std::out_of_range("the states were flushed during the call");
                    }
                    verdicts[row] = searcher.find_witness(rows[row]);
                }
            } catch (...) {
                errors[at] = std::current_exception();
            }
        }
    };
    const std::size_t helpers = std::min<std::size_t>(threads, groups.size());
    std::vector<std::thread> others;
    try {
        for (std::size_t helper = 1; helper < helpers; ++helper) others.emplace_back(work);
    } catch (const std::system_error&) {
        // No thread to be had: the ones that there are do all the work.
    }
    work();
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

}  // namespace lave
