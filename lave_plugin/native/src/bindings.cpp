// What Python sees. Everything that comes from there is checked here; what is behind trusts it.
//
// pybind11 rather than nanobind: it is headers only and builds through setuptools with the compiler
// alone, where nanobind compiles a library of its own and asks for CMake.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "automaton.hpp"
#include "candidates.hpp"
#include "lave.hpp"
#include "normal_form.hpp"
#include "notation.hpp"
#include "rules.hpp"
#include "search.hpp"
#include "token_automaton.hpp"
#include "vocabulary.hpp"

namespace lave {
namespace {

// The automaton for one call. Waits for it without the interpreter's lock, which the thread that
// has the automaton may want. Nobody waits for an automaton while holding another.
class Hold {
public:
    explicit Hold(Automaton& automaton) : lock_(automaton.mutex, std::try_to_lock) {
        if (!lock_.owns_lock()) {
            const py::gil_scoped_release release;
            lock_.lock();
        }
    }

private:
    std::unique_lock<std::mutex> lock_;
};

// States leave as ids, and ids that come are looked at: no arithmetic on one can overflow.
State live(const Automaton& automaton, std::int64_t id) {
    if (automaton.is_broken()) {
        throw std::runtime_error("memory ran out while a state was unfolded; make room first");
    }
    if (id >= 0 && id < automaton.first_id()) {
        throw py::index_error("state " + std::to_string(id) + " was dropped to make room");
    }
    if (id < 0 || id - automaton.first_id() >= automaton.state_count()) {
        throw py::index_error("there is no state " + std::to_string(id));
    }
    return static_cast<State>(id - automaton.first_id());
}

std::int64_t id_of(const Automaton& automaton, State state) {
    return state < 0 ? state : automaton.first_id() + state;
}

State live_or_dead(const Automaton& automaton, std::int64_t state) {
    return state == kDead ? kDead : live(automaton, state);
}

// The reference takes any negative state but ENDED for dead.
State of_tokens(const Automaton& automaton, std::int64_t state) {
    if (state == kEnded) return kEnded;
    return state < 0 ? kDead : live(automaton, state);
}

// For the functions that ask how a text ends.
State not_dead(const Automaton& automaton, std::int64_t state) {
    if (state == kDead) throw py::value_error("a dead state has no completion");
    return live(automaton, state);
}

std::uint8_t checked_byte(std::int64_t byte) {
    if (byte < 0 || byte > 255) {
        throw py::value_error("a byte is from 0 to 255, not " + std::to_string(byte));
    }
    return static_cast<std::uint8_t>(byte);
}

std::shared_ptr<Automaton> make_automaton(
    const py::buffer& byte_begins, const py::buffer& byte_edges, const py::buffer& rule_begins,
    const py::buffer& rule_edges, const py::buffer& final, const py::buffer& start,
    std::int64_t root, std::int64_t max_states,
    const std::vector<std::pair<std::vector<std::int32_t>, bool>>& token_sets,
    const std::optional<py::buffer>& token_edges, const std::optional<py::buffer>& token_budgets,
    const std::optional<py::buffer>& character_budgets) {
    if (max_states < 1) throw py::value_error("max_states must be at least 1");
    const Array<std::int32_t> a(byte_begins, "byte_begins", {kAnyLength});
    const Array<std::int32_t> b(byte_edges, "byte_edges", {kAnyLength});
    const Array<std::int32_t> c(rule_begins, "rule_begins", {kAnyLength});
    const Array<std::int32_t> d(rule_edges, "rule_edges", {kAnyLength});
    const Array<std::uint8_t> e(final, "final", {kAnyLength});
    const Array<std::int32_t> f(start, "start", {kAnyLength});
    RawRules raw{a.data(), a.size(), b.data(), b.size(), c.data(), c.size(), d.data(),
                 d.size(), e.data(), e.size(), f.data(), f.size(), root};
    for (const auto& [ids, excluded] : token_sets) raw.token_sets.push_back({ids, excluded});
    std::optional<Array<std::int32_t>> g, h, i;
    if (token_edges) {
        g.emplace(*token_edges, "token_edges", std::vector<py::ssize_t>{kAnyLength});
        raw.token_edges = g->data();
        raw.token_edges_count = g->size();
    }
    if (token_budgets) {
        h.emplace(*token_budgets, "token_budgets", std::vector<py::ssize_t>{kAnyLength});
        raw.token_budgets = h->data();
        raw.token_budgets_count = h->size();
    }
    if (character_budgets) {
        i.emplace(*character_budgets, "character_budgets",
                  std::vector<py::ssize_t>{kAnyLength});
        raw.character_budgets = i->data();
        raw.character_budgets_count = i->size();
    }
    return std::make_shared<Automaton>(Rules(raw), max_states);
}

std::shared_ptr<Automaton> make_automaton_of(const RuleArrays& rules, std::int64_t max_states) {
    if (max_states < 1) throw py::value_error("max_states must be at least 1");
    const py::gil_scoped_release release;
    return std::make_shared<Automaton>(Rules(rules.raw()), max_states);
}

using PyByteEdge = std::tuple<std::uint8_t, std::uint8_t, std::int32_t>;
using PyRuleEdge = std::pair<std::string, std::int32_t>;
using PyNode = std::tuple<bool, std::vector<PyByteEdge>, std::vector<PyRuleEdge>>;

FinishedNode node_of_python(Grammar& grammar, const PyNode& node, std::size_t count) {
    auto checked = [count](std::int32_t target) {
        if (target < 0 || static_cast<std::size_t>(target) >= count) {
            throw py::index_error("an edge leads to a node that there is not");
        }
        return target;
    };
    FinishedNode result;
    result.final = std::get<0>(node);
    for (const auto& [low, high, target] : std::get<1>(node)) {
        result.byte_edges.push_back({low, high, checked(target)});
    }
    for (const auto& [rule, target] : std::get<2>(node)) {
        result.rule_edges.push_back({grammar.rule(rule), checked(target)});
    }
    return result;
}

Macro macro_of_python(Grammar& grammar, const py::function& read_macro, AtomId rule,
                      std::string_view source) {
    const py::gil_scoped_acquire acquire;
    using Parts = std::vector<std::pair<std::string, std::vector<PyNode>>>;
    const auto [key, references, parts] =
        read_macro(grammar.atom(rule).text, std::string(source))
            .cast<std::tuple<std::string, std::vector<std::string>, Parts>>();
    Macro macro{key, {}, {}};
    for (const std::string& name : references) macro.references.push_back(grammar.rule(name));
    for (const auto& [name, nodes] : parts) {
        std::vector<FinishedNode> finished;
        for (const PyNode& node : nodes) {
            finished.push_back(node_of_python(grammar, node, nodes.size()));
        }
        if (finished.empty()) throw py::value_error("an automaton needs a node");
        macro.parts.emplace_back(grammar.rule(name), std::move(finished));
    }
    return macro;
}

// Nothing where the text is to be left to the reader in Python.
std::optional<RuleArrays> read(const std::string& text, const py::function& read_macro) {
    const py::gil_scoped_release release;
    try {
        return read_normal_form(
            text, [&read_macro](Grammar& grammar, AtomId rule, std::string_view source) {
                return macro_of_python(grammar, read_macro, rule, source);
            });
    } catch (const NotPlain&) {
        return std::nullopt;
    }
}

std::shared_ptr<Vocabulary> make_vocabulary(const py::buffer& bytes, const py::buffer& begins,
                                            const std::vector<Token>& end_tokens) {
    const Array<std::uint8_t> data(bytes, "bytes", {kAnyLength});
    const Array<std::int64_t> offsets(begins, "begins", {kAnyLength});
    auto arena = std::make_shared<const Arena>(
        std::vector<std::uint8_t>(data.data(), data.data() + data.size()),
        std::vector<std::int64_t>(offsets.data(), offsets.data() + offsets.size()));
    return std::make_shared<Vocabulary>(std::move(arena), end_tokens);
}

py::tuple tuple_of(TokenAutomaton::Tokens tokens) {
    py::tuple result(tokens.count);
    for (std::size_t at = 0; at < tokens.count; ++at) result[at] = tokens.first[at];
    return result;
}

// A token id as the states know it; what is out of range fits nowhere, as in the reference.
Token token_of(PyObject* number) {
    int overflow = 0;
    const long long token = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (token == -1 && overflow == 0 && PyErr_Occurred()) throw py::error_already_set();
    const bool fits = overflow == 0 && token >= std::numeric_limits<Token>::min() &&
                      token <= std::numeric_limits<Token>::max();
    return fits ? static_cast<Token>(token) : std::numeric_limits<Token>::min();
}

// By the interpreter's own functions: a row has hundreds of candidates, and pybind11's casts take
// longer than the search.
void append_tokens(std::vector<Token>& tokens, const py::object& sequence) {
    const auto fast = py::reinterpret_steal<py::object>(
        PySequence_Fast(sequence.ptr(), "tokens must be a sequence of numbers"));
    if (!fast) throw py::error_already_set();
    // The size is asked for each time: what a number's __index__ does is not ours to know.
    for (py::ssize_t at = 0; at < PySequence_Fast_GET_SIZE(fast.ptr()); ++at) {
        const auto number =
            py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(fast.ptr(), at));
        tokens.push_back(token_of(number.ptr()));
    }
}

std::pair<std::string, py::object> find_witness(TokenAutomaton& tokens, std::int64_t state,
                                                const py::list& canvas, std::int64_t first,
                                                std::int64_t tokens_left,
                                                const py::object& candidates,
                                                std::int64_t budget, bool fillers) {
    std::vector<Token> row;
    append_tokens(row, canvas);
    const auto length = static_cast<std::int64_t>(row.size());
    if (first < 0) throw py::value_error("the canvas begins at a negative position");
    std::int64_t last = length - 1;
    while (last >= first && row[last] == kMasked) --last;

    // Lists of the masked positions that the search can come to, one behind the other.
    std::vector<Token> listed;
    std::vector<std::pair<std::size_t, std::size_t>> spans(row.size());
    for (std::int64_t position = first; position <= last; ++position) {
        if (row[position] != kMasked) continue;
        const std::size_t from = listed.size();
        const py::object of_position = candidates[py::int_(position)];
        append_tokens(listed, of_position);
        spans[position] = {from, listed.size() - from};
    }
    std::vector<Candidates> by_position;
    for (const auto& [from, count] : spans) {
        by_position.push_back({listed.data() + from, static_cast<std::int64_t>(count)});
    }
    std::vector<Token> witness(row.size(), kMasked);
    Verdict verdict;
    {
        const Hold hold(*tokens.automaton);
        const State before = of_tokens(*tokens.automaton, state);
        const py::gil_scoped_release release;
        Searcher searcher;
        verdict = searcher.find_witness({&tokens, before, tokens.automaton->generation(), row.data(),
                                         length, first, tokens_left, by_position.data(), budget,
                                         fillers, witness.data()});
    }
    if (verdict != Verdict::kAlive) {
        return {verdict == Verdict::kRefuted ? "refuted" : "undecided", py::none()};
    }
    py::dict found;
    for (std::int64_t position = first; position <= last; ++position) {
        if (row[position] == kMasked) found[py::int_(position)] = witness[position];
    }
    return {"alive", found};
}

py::tuple find_witness_batch(const std::vector<TokenAutomaton*>& tokens, const py::buffer& states,
                             const py::buffer& canvases, const py::buffer& first,
                             const py::buffer& tokens_left, const py::buffer& candidates,
                             std::int64_t budget, bool fillers, std::int64_t threads) {
    const auto rows = static_cast<py::ssize_t>(tokens.size());
    if (std::find(tokens.begin(), tokens.end(), nullptr) != tokens.end()) {
        throw py::type_error("tokens must be native TokenAutomaton objects");
    }
    if (threads < 1) throw py::value_error("threads must be at least 1");
    const Array<std::int64_t> state_of(states, "states", {rows});
    const Array<std::int32_t> canvas_of(canvases, "canvases", {rows, kAnyLength});
    const std::size_t block = canvas_of.shape(1);
    const Array<std::int64_t> first_of(first, "first", {rows});
    const Array<std::int64_t> left_of(tokens_left, "tokens_left", {rows});
    const Array<std::int32_t> candidates_of(
        candidates, "candidates", {rows, static_cast<py::ssize_t>(block), kAnyLength});
    const std::size_t top_k = candidates_of.shape(2);
    // Copied, so that nobody can change them after they are checked.
    const std::vector<Token> canvas(canvas_of.data(), canvas_of.data() + canvas_of.size());

    py::array_t<std::uint8_t> verdicts(rows);
    py::array_t<std::int32_t> witnesses({rows, static_cast<py::ssize_t>(block)});
    std::fill_n(witnesses.mutable_data(), witnesses.size(), kMasked);
    std::vector<Verdict> found(tokens.size(), Verdict::kUndecided);
    std::vector<Candidates> listed(tokens.size() * block);
    std::vector<Canvas> work;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
        const std::int64_t begin = first_of.data()[row];
        if (begin < 0 || begin > static_cast<std::int64_t>(block)) {
            throw py::value_error("first must be from 0 to the length of the block, not " +
                                  std::to_string(begin));
        }
        State before;
        std::int64_t generation;
        {
            const Hold hold(*tokens[row]->automaton);
            before = of_tokens(*tokens[row]->automaton, state_of.data()[row]);
            generation = tokens[row]->automaton->generation();
        }
        for (std::size_t position = 0; position < block; ++position) {
            const std::size_t at = row * block + position;
            const std::int32_t* from = candidates_of.data() + at * top_k;
            // A list may be shorter than the others: the first negative id ends it.
            std::int64_t count = 0;
            while (count < static_cast<std::int64_t>(top_k) && from[count] >= 0) ++count;
            listed[at] = {from, count};
        }
        work.push_back({tokens[row], before, generation, canvas.data() + row * block,
                        static_cast<std::int64_t>(block), begin, left_of.data()[row],
                        listed.data() + row * block, budget, fillers,
                        witnesses.mutable_data() + row * block});
    }
    {
        const py::gil_scoped_release release;
        find_witnesses(work, found.data(),
                       static_cast<unsigned>(std::min<std::int64_t>(threads, 64)));
    }
    for (std::size_t row = 0; row < tokens.size(); ++row) {
        verdicts.mutable_data()[row] = static_cast<std::uint8_t>(found[row]);
        if (found[row] != Verdict::kAlive) {
            std::fill_n(witnesses.mutable_data() + row * block, block, kMasked);
        }
    }
    return py::make_tuple(verdicts, witnesses);
}

// Numbers of stages and needs that don't exist come from nowhere but a bug in the caller.
Stage stage_of(std::uint8_t number) {
    if (number > static_cast<std::uint8_t>(Stage::kForced)) {
        throw py::value_error("there is no stage " + std::to_string(number));
    }
    return static_cast<Stage>(number);
}

py::tuple step_batch(const std::vector<Lave*>& laves, const py::buffer& states,
                     const py::buffer& canvases, const py::buffer& first,
                     const py::buffer& tokens_left, const py::buffer& proposed,
                     const py::buffer& best, const std::optional<py::buffer>& candidates,
                     const std::optional<py::buffer>& probabilities, const py::buffer& stages,
                     double threshold, std::int64_t threads) {
    const auto rows = static_cast<py::ssize_t>(laves.size());
    if (std::find(laves.begin(), laves.end(), nullptr) != laves.end()) {
        throw py::type_error("laves must be native Lave objects");
    }
    if (std::set<Lave*>(laves.begin(), laves.end()).size() != laves.size()) {
        throw py::value_error("a request can be in a batch once");
    }
    if (threads < 1) throw py::value_error("threads must be at least 1");
    if (candidates.has_value() != probabilities.has_value()) {
        throw py::value_error("candidates and probabilities belong together");
    }
    const Array<std::int64_t> state_of(states, "states", {rows});
    const Array<std::int32_t> canvas_of(canvases, "canvases", {rows, kAnyLength});
    const auto block = static_cast<py::ssize_t>(canvas_of.shape(1));
    const Array<std::int64_t> first_of(first, "first", {rows});
    const Array<std::int64_t> left_of(tokens_left, "tokens_left", {rows});
    const Array<std::int32_t> proposed_of(proposed, "proposed", {rows, block});
    const Array<std::int32_t> best_of(best, "best", {rows, block});
    const Array<std::uint8_t> stage_numbers(stages, "stages", {rows});
    std::optional<Array<std::int32_t>> listed;
    std::optional<Array<float>> weights;
    py::ssize_t width = 0;
    if (candidates) {
        listed.emplace(*candidates, "candidates", std::vector<py::ssize_t>{rows, block, kAnyLength});
        width = static_cast<py::ssize_t>(listed->shape(2));
        weights.emplace(*probabilities, "probabilities",
                        std::vector<py::ssize_t>{rows, block, width});
    }
    // Copied, so that nobody can change them after they are checked.
    const std::size_t size = canvas_of.size();
    py::array_t<std::int32_t> written({rows, block});
    std::copy_n(canvas_of.data(), size, written.mutable_data());
    const std::vector<Token> proposals(proposed_of.data(), proposed_of.data() + size);

    std::vector<LaveRow> work;
    for (py::ssize_t row = 0; row < rows; ++row) {
        const std::int64_t begin = first_of.data()[row];
        if (begin < 0 || begin > block) {
            throw py::value_error("first must be from 0 to the length of the block, not " +
                                  std::to_string(begin));
        }
        const Stage stage = stage_of(stage_numbers.data()[row]);
        if (stage != Stage::kBegin && stage != Stage::kForced && !candidates) {
            throw py::value_error("a step can't go on there without candidates");
        }
        Automaton& automaton = *laves[row]->tokens->automaton;
        const Hold hold(automaton);
        const std::size_t at = static_cast<std::size_t>(row * block);
        LaveRow one;
        one.state = of_tokens(automaton, state_of.data()[row]);
        one.generation = automaton.generation();
        one.canvas = written.mutable_data() + at;
        one.block = block;
        one.first = begin;
        // No text is as long as this; so no arithmetic on it can overflow.
        one.tokens_left = std::max(left_of.data()[row], -kUnreachable);
        one.proposed = proposals.data() + at;
        one.best = best_of.data() + at;
        one.candidates = listed ? listed->data() + at * width : nullptr;
        one.probabilities = weights ? weights->data() + at * width : nullptr;
        one.width = width;
        one.threshold = threshold;
        one.stage = stage;
        work.push_back(std::move(one));
    }
    {
        const py::gil_scoped_release release;
        step_all(laves, work, static_cast<unsigned>(std::min<std::int64_t>(threads, 64)));
    }
    py::array_t<std::uint8_t> needs(rows), next_stages(rows);
    py::dict errors, positions;
    for (py::ssize_t row = 0; row < rows; ++row) {
        const LaveRow& one = work[row];
        needs.mutable_data()[row] = static_cast<std::uint8_t>(one.need);
        next_stages.mutable_data()[row] = static_cast<std::uint8_t>(one.stage);
        if (!one.error.empty()) errors[py::int_(row)] = one.error;
        if (one.need == Need::kToken) {
            const Hold hold(*laves[row]->tokens->automaton);
            positions[py::int_(row)] =
                py::make_tuple(one.position, id_of(*laves[row]->tokens->automaton, one.here));
        }
    }
    return py::make_tuple(written, needs, next_stages, positions, errors);
}

// Which entries of a batch the rows are, all of them there.
std::vector<std::size_t> checked_rows(const py::buffer& index, std::size_t batch) {
    const Array<std::int64_t> rows(index, "index", {kAnyLength});
    std::vector<std::size_t> result;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const std::int64_t at = rows.data()[row];
        if (at < 0 || at >= static_cast<std::int64_t>(batch)) {
            throw py::index_error("there is no row " + std::to_string(at) + " in the logits");
        }
        result.push_back(static_cast<std::size_t>(at));
    }
    return result;
}

// Logits [batch, block, vocabulary] as they lie there: the engine's are a slice of wider rows where
// it has padded the vocabulary.
class Logits {
public:
    explicit Logits(const py::buffer& buffer) : info_(buffer.request()) {
        if (info_.format != "f") throw py::type_error("logits must be an array of float32");
        if (info_.ndim != 3) {
            throw py::value_error("logits must have 3 dimensions, not " +
                                  std::to_string(info_.ndim));
        }
        if (info_.shape[2] > 1 && info_.strides[2] != info_.itemsize) {
            throw py::value_error("the logits of a position must lie behind each other");
        }
    }

    std::size_t batch() const { return static_cast<std::size_t>(info_.shape[0]); }
    std::size_t block() const { return static_cast<std::size_t>(info_.shape[1]); }
    std::size_t vocabulary() const { return static_cast<std::size_t>(info_.shape[2]); }
    const float* at(std::size_t row, std::size_t position) const {
        return reinterpret_cast<const float*>(
            static_cast<const char*>(info_.ptr) +
            static_cast<py::ssize_t>(row) * info_.strides[0] +
            static_cast<py::ssize_t>(position) * info_.strides[1]);
    }

private:
    py::buffer_info info_;
};

// The first of the most probable tokens that are not barred; 0 where all are.
Token best_allowed(const float* logits, const std::uint8_t* barred, std::size_t vocabulary) {
    std::size_t best = vocabulary;
    for (std::size_t token = 0; token < vocabulary; ++token) {
        if (barred[token] == 0 && (best == vocabulary || logits[token] > logits[best])) {
            best = token;
        }
    }
    return best == vocabulary ? 0 : static_cast<Token>(best);
}

// What a step knows of its rows before it decides: lave_plugin/batch.py, `_Step`, has the reference.
py::tuple lay_out(const py::buffer& before, const py::buffer& after, const py::buffer& logits,
                  const py::buffer& index, const py::buffer& first, const py::buffer& barred,
                  std::int64_t mask_id) {
    const Logits values(logits);
    const std::size_t vocabulary = values.vocabulary();
    const std::vector<std::size_t> rows = checked_rows(index, values.batch());
    const auto row_count = static_cast<py::ssize_t>(rows.size());
    const auto block = static_cast<py::ssize_t>(values.block());
    const auto batch = static_cast<py::ssize_t>(values.batch());
    const Array<std::int64_t> before_of(before, "before", {batch, block});
    const Array<std::int64_t> after_of(after, "after", {batch, block});
    const Array<std::int64_t> first_of(first, "first", {row_count});
    const Array<std::uint8_t> barred_of(barred, "barred",
                                        {static_cast<py::ssize_t>(vocabulary)});
    if (vocabulary == 0) throw py::value_error("the logits are of no token");
    py::array_t<std::int32_t> ids({row_count, block}), canvases({row_count, block}),
        proposed({row_count, block}), best({row_count, block});
    py::array_t<bool> owed({row_count, block});
    std::int32_t* const to_ids = ids.mutable_data();
    std::int32_t* const to_canvases = canvases.mutable_data();
    std::int32_t* const to_proposed = proposed.mutable_data();
    std::int32_t* const to_best = best.mutable_data();
    bool* const to_owed = owed.mutable_data();
    bool are_tokens = true;
    {
        const py::gil_scoped_release release;
        for (std::size_t row = 0; row < rows.size(); ++row) {
            for (py::ssize_t position = 0; position < block; ++position) {
                const std::size_t from = rows[row] * block + position, to = row * block + position;
                const auto now = static_cast<Token>(before_of.data()[from]);
                const auto then = static_cast<Token>(after_of.data()[from]);
                const bool in_answer = position >= first_of.data()[row];
                to_ids[to] = now;
                to_owed[to] = in_answer && before_of.data()[from] == mask_id;
                to_canvases[to] = to_owed[to] ? kMasked : now;
                to_proposed[to] = in_answer && then != now ? then : kMasked;
                to_best[to] = now;
                if (!to_owed[to]) continue;
                const float* const of_position = values.at(rows[row], position);
                Token choice = to_proposed[to];
                if (choice == kMasked) {
                    choice = static_cast<Token>(most_probable(of_position, vocabulary));
                }
                if (choice < 0 || static_cast<std::size_t>(choice) >= vocabulary) {
                    are_tokens = false;
                    continue;
                }
                if (barred_of.data()[choice] != 0) {
                    choice = best_allowed(of_position, barred_of.data(), vocabulary);
                    if (to_proposed[to] != kMasked) to_proposed[to] = choice;
                }
                to_best[to] = choice;
            }
        }
    }
    if (!are_tokens) throw py::index_error("a proposed token is not in the logits");
    return py::make_tuple(ids, canvases, proposed, best, owed);
}

py::tuple cut_candidates(const py::buffer& logits, const py::buffer& index,
                         const py::buffer& masked, const py::buffer& first,
                         const py::buffer& never, const std::vector<std::vector<Token>>& named,
                         std::int64_t top_k) {
    const Logits values(logits);
    const std::size_t vocabulary = values.vocabulary();
    const std::vector<std::size_t> rows = checked_rows(index, values.batch());
    const auto row_count = static_cast<py::ssize_t>(rows.size());
    const auto block = static_cast<py::ssize_t>(values.block());
    const Array<std::uint8_t> masked_of(masked, "masked", {row_count, block});
    const Array<std::int32_t> first_of(first, "first", {row_count, block});
    const Array<std::int32_t> never_of(never, "never", {kAnyLength});
    if (top_k < 0) throw py::value_error("top_k must not be negative");
    if (named.size() != rows.size()) throw py::value_error("named must have an entry for each row");
    const auto is_token = [vocabulary](std::int64_t token) {
        return token >= 0 && token < static_cast<std::int64_t>(vocabulary);
    };
    const auto are_tokens = [&](const Token* begin, const Token* end) {
        if (!std::all_of(begin, end, is_token)) {
            throw py::index_error("a token of `never` or `named` is not in the logits");
        }
    };
    are_tokens(never_of.data(), never_of.data() + never_of.size());
    for (const std::vector<Token>& of_row : named) {
        are_tokens(of_row.data(), of_row.data() + of_row.size());
    }
    const std::size_t positions = masked_of.size();
    for (std::size_t at = 0; at < positions; ++at) {
        if (masked_of.data()[at] != 0 && !is_token(first_of.data()[at])) {
            throw py::index_error("there is no token " + std::to_string(first_of.data()[at]) +
                                  " in the logits");
        }
    }
    CandidateCutter cutter(never_of.data(), never_of.size(), vocabulary,
                           static_cast<std::size_t>(top_k));
    const py::ssize_t width = std::min<std::int64_t>(top_k, static_cast<std::int64_t>(vocabulary));
    py::array_t<std::int32_t> ids({row_count, block, width + 1});
    py::array_t<float> probabilities({row_count, block, width + 1});
    std::fill_n(ids.mutable_data(), ids.size(), -1);
    std::fill_n(probabilities.mutable_data(), probabilities.size(), 0.0F);
    std::int32_t* to = ids.mutable_data();
    float* weights = probabilities.mutable_data();
    {
        const py::gil_scoped_release release;
        for (std::size_t at = 0; at < positions; ++at) {
            if (masked_of.data()[at] == 0) continue;
            const std::size_t row = at / block, position = at % block;
            cutter.cut(values.at(rows[row], position), named[row], first_of.data()[at],
                       to + at * (width + 1), weights + at * (width + 1));
        }
    }
    return py::make_tuple(ids, probabilities);
}

py::bytes bytes_of(const std::string& data) { return py::bytes(data); }

void bind_reader(py::module_& module) {
    py::class_<RuleArrays>(module, "RuleArrays")
        .def_readonly("names", &RuleArrays::names)
        .def_readonly("byte_begins", &RuleArrays::byte_begins)
        .def_readonly("byte_edges", &RuleArrays::byte_edges)
        .def_readonly("rule_begins", &RuleArrays::rule_begins)
        .def_readonly("rule_edges", &RuleArrays::rule_edges)
        .def_readonly("final", &RuleArrays::final)
        .def_readonly("start", &RuleArrays::start)
        .def_readonly("root", &RuleArrays::root);
    module.def("read_normal_form", &read, py::arg("text"), py::arg("read_macro"));
}

void bind_automaton(py::module_& module) {
    py::class_<Automaton, std::shared_ptr<Automaton>>(module, "Automaton")
        .def(py::init(&make_automaton), py::arg("byte_begins"), py::arg("byte_edges"),
             py::arg("rule_begins"), py::arg("rule_edges"), py::arg("final"), py::arg("start"),
             py::arg("root"), py::arg("max_states"),
             py::arg("token_sets") = std::vector<std::pair<std::vector<std::int32_t>, bool>>(),
             py::arg("token_edges") = py::none(), py::arg("token_budgets") = py::none(),
             py::arg("character_budgets") = py::none())
        .def(py::init(&make_automaton_of), py::arg("rules"), py::arg("max_states"))
        .def_property_readonly("start",
                               [](Automaton& self) {
                                   const Hold hold(self);
                                   return id_of(self, self.start());
                               })
        .def_property_readonly("generation",
                               [](Automaton& self) {
                                   const Hold hold(self);
                                   return self.generation();
                               })
        .def("make_room",
             [](Automaton& self) {
                 const Hold hold(self);
                 const bool full = self.is_full();
                 if (full) self.flush();
                 return full;
             })
        .def("drop_states",
             [](Automaton& self) {
                 const Hold hold(self);
                 self.flush();
             })
        .def_property_readonly("state_count",
                               [](Automaton& self) {
                                   const Hold hold(self);
                                   return self.state_count();
                               })
        .def_property_readonly("memory",
                               [](Automaton& self) {
                                   const Hold hold(self);
                                   return self.bytes();
                               },
                               "Bytes that the states take, about.")
        .def_property_readonly("reads_tokens",
                               [](const Automaton& self) { return self.rules().reads_tokens(); },
                               "Whether a token is more to the grammar than its bytes.")
        .def_property_readonly("is_recursive",
                               [](const Automaton& self) { return self.rules().recursive(); },
                               "Whether some rule refers to itself, maybe by way of others.")
        .def("step",
             [](Automaton& self, std::int64_t state, std::int64_t byte) {
                 const Hold hold(self);
                 return id_of(self, self.step(live_or_dead(self, state), checked_byte(byte)));
             })
        .def("run",
             [](Automaton& self, std::int64_t state, const py::bytes& data) {
                 char* bytes = nullptr;
                 py::ssize_t count = 0;
                 if (PyBytes_AsStringAndSize(data.ptr(), &bytes, &count) != 0) {
                     throw py::error_already_set();
                 }
                 const Hold hold(self);
                 return id_of(self, self.run(live_or_dead(self, state),
                                             reinterpret_cast<const std::uint8_t*>(bytes),
                                             static_cast<std::size_t>(count)));
             })
        .def("accepting",
             [](Automaton& self, std::int64_t state) {
                 const Hold hold(self);
                 return self.accepting(live_or_dead(self, state));
             })
        .def("can_continue",
             [](Automaton& self, std::int64_t state) {
                 const Hold hold(self);
                 return self.can_continue(live_or_dead(self, state));
             })
        .def("shortest_length",
             [](Automaton& self, std::int64_t state) {
                 const Hold hold(self);
                 return self.shortest_length(not_dead(self, state));
             })
        .def("shortest_completion",
             [](Automaton& self, std::int64_t state) {
                 const Hold hold(self);
                 std::string completion;
                 State here = not_dead(self, state);
                 while (!self.accepting(here)) {
                     const std::int32_t symbol = self.first_symbol(here);
                     if (symbol < 0) {
                         PyErr_SetString(PyExc_LookupError,
                                         "a token stands on the way, which is no string of bytes");
                         throw py::error_already_set();
                     }
                     completion.push_back(static_cast<char>(symbol));
                     here = self.step(here, static_cast<std::uint8_t>(symbol));
                 }
                 return bytes_of(completion);
             })
        .def("allowed_bytes",
             [](Automaton& self, std::int64_t state) {
                 const Hold hold(self);
                 return bytes_of(self.allowed_bytes(live_or_dead(self, state)));
             })
        .def(
            "forced_bytes",
            [](Automaton& self, std::int64_t state, std::int64_t limit) {
                const Hold hold(self);
                return bytes_of(self.forced_bytes(live_or_dead(self, state), limit));
            },
            py::arg("state"), py::arg("limit") = 64);
}

void bind_token_automaton(py::module_& module) {
    py::class_<Vocabulary, std::shared_ptr<Vocabulary>>(module, "Vocabulary")
        .def(py::init(&make_vocabulary), py::arg("bytes"), py::arg("begins"),
             py::arg("end_tokens"))
        .def(
            "with_end_tokens",
            [](const Vocabulary& self, const std::vector<Token>& end_tokens) {
                return std::make_shared<Vocabulary>(self.arena, end_tokens);
            },
            py::arg("end_tokens"))
        .def("__len__", &Vocabulary::size);

    py::class_<TokenAutomaton, std::shared_ptr<TokenAutomaton>>(module, "TokenAutomaton")
        .def(py::init([](std::shared_ptr<Automaton> automaton,
                         std::shared_ptr<Vocabulary> vocabulary) {
            if (!automaton || !vocabulary) throw py::type_error("None is not a part of it");
            return std::make_shared<TokenAutomaton>(std::move(automaton), std::move(vocabulary));
        }))
        .def_property_readonly("start",
                               [](TokenAutomaton& self) {
                                   const Hold hold(*self.automaton);
                                   return id_of(*self.automaton, self.start());
                               })
        .def_property_readonly("generation",
                               [](TokenAutomaton& self) {
                                   const Hold hold(*self.automaton);
                                   return self.automaton->generation();
                               })
        .def("advance",
             [](TokenAutomaton& self, std::int64_t state, std::int64_t token) {
                 const Hold hold(*self.automaton);
                 const State before = of_tokens(*self.automaton, state);
                 return id_of(*self.automaton, self.advance(before, token));
             })
        .def("is_complete",
             [](TokenAutomaton& self, std::int64_t state) {
                 const Hold hold(*self.automaton);
                 return self.is_complete(of_tokens(*self.automaton, state));
             })
        .def("shortest_ending",
             [](TokenAutomaton& self, std::int64_t state) {
                 const Hold hold(*self.automaton);
                 return self.shortest_ending(state == kEnded ? kEnded
                                                             : not_dead(*self.automaton, state));
             })
        .def("tokens_to_finish",
             [](TokenAutomaton& self, std::int64_t state) {
                 const Hold hold(*self.automaton);
                 return self.tokens_to_finish(state == kEnded ? kEnded
                                                              : not_dead(*self.automaton, state));
             })
        .def("finishes_within",
             [](TokenAutomaton& self, std::int64_t state, std::int64_t left) {
                 const Hold hold(*self.automaton);
                 return self.finishes_within(
                     state == kEnded ? kEnded : not_dead(*self.automaton, state), left);
             })
        .def("fillers",
             [](TokenAutomaton& self, std::int64_t state) {
                 const Hold hold(*self.automaton);
                 return tuple_of(self.fillers(of_tokens(*self.automaton, state)));
             })
        .def("allowed_tokens",
             [](TokenAutomaton& self, std::int64_t state) {
                 const Hold hold(*self.automaton);
                 const State here = of_tokens(*self.automaton, state);
                 const std::vector<std::uint32_t>* mask = nullptr;
                 {
                     const py::gil_scoped_release release;
                     mask = &self.allowed_tokens(here);
                 }
                 return py::bytes(reinterpret_cast<const char*>(mask->data()),
                                  mask->size() * sizeof(std::uint32_t));
             })
        .def("find_witness", &find_witness, py::arg("state"), py::arg("canvas"), py::arg("first"),
             py::arg("tokens_left"), py::arg("candidates"), py::arg("budget"),
             py::arg("fillers") = true);
    module.def("find_witness_batch", &find_witness_batch, py::arg("tokens"), py::arg("states"),
               py::arg("canvases"), py::arg("first"), py::arg("tokens_left"),
               py::arg("candidates"), py::arg("budget"), py::arg("fillers") = true,
               py::arg("threads") = 1);
}

void bind_lave(py::module_& module) {
    py::class_<Lave, std::shared_ptr<Lave>>(module, "Lave")
        .def(py::init([](std::shared_ptr<TokenAutomaton> tokens, std::int64_t attempts,
                         std::int64_t search_budget, double plausibility, bool forced_tokens,
                         bool constrained_confidence) {
                 if (!tokens) throw py::type_error("None is not a part of it");
                 return std::make_shared<Lave>(
                     std::move(tokens),
                     LaveOptions{attempts, search_budget, plausibility, forced_tokens,
                                 constrained_confidence});
             }),
             py::arg("tokens"), py::arg("attempts"), py::arg("search_budget"),
             py::arg("plausibility"), py::arg("forced_tokens"),
             py::arg("constrained_confidence"))
        .def("start_block",
             [](Lave& self) {
                 const Hold hold(*self.tokens->automaton);
                 self.start_block();
             })
        .def_property_readonly("witness",
                               [](Lave& self) {
                                   const Hold hold(*self.tokens->automaton);
                                   py::dict witness;
                                   for (std::size_t at = 0; at < self.witness().size(); ++at) {
                                       const Token token = self.witness()[at];
                                       if (token != kMasked) witness[py::int_(at)] = token;
                                   }
                                   return witness;
                               })
        .def_property_readonly("forced",
                               [](Lave& self) {
                                   const Hold hold(*self.tokens->automaton);
                                   py::set forced;
                                   for (std::int64_t at : self.forced()) forced.add(py::int_(at));
                                   return forced;
                               })
        .def_property_readonly("counts", [](Lave& self) {
            const Hold hold(*self.tokens->automaton);
            const Lave::Counts& counts = self.counts();
            using namespace py::literals;
            return py::dict("accepted"_a = counts.accepted, "refused"_a = counts.refused,
                            "recovered"_a = counts.recovered, "forced"_a = counts.forced,
                            "lookaheads"_a = counts.lookaheads,
                            "undecided"_a = counts.undecided);
        });
    module.def("step_batch", &step_batch, py::arg("laves"), py::arg("states"),
               py::arg("canvases"), py::arg("first"), py::arg("tokens_left"),
               py::arg("proposed"), py::arg("best"), py::arg("candidates"),
               py::arg("probabilities"), py::arg("stages"), py::arg("threshold"),
               py::arg("threads"));
}

void bind_candidates(py::module_& module) {
    module.def("lay_out", &lay_out, py::arg("before"), py::arg("after"), py::arg("logits"),
               py::arg("index"), py::arg("first"), py::arg("barred"), py::arg("mask_id"));
    module.def("cut_candidates", &cut_candidates, py::arg("logits"), py::arg("index"),
               py::arg("masked"), py::arg("first"), py::arg("never"), py::arg("named"),
               py::arg("top_k"));
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    py::register_exception<StatesExhausted>(module, "StatesExhausted", PyExc_MemoryError);
    module.doc() = "The states of a grammar in C++; see lave_plugin/native/__init__.py.";
    bind_reader(module);
    bind_automaton(module);
    bind_token_automaton(module);
    bind_lave(module);
    bind_candidates(module);
}

}  // namespace lave
