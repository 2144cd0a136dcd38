#include "automaton.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace lave {

namespace {

// Which byte a shortest completion takes where several will do: digits, lower case, upper case,
// other printable ASCII, the rest. The order is the reference's.
std::array<int, 256> ranks() {
    std::array<int, 256> rank;
    for (int byte = 0; byte < 256; ++byte) {
        if ('0' <= byte && byte <= '9') rank[byte] = byte - '0';
        else if ('a' <= byte && byte <= 'z') rank[byte] = 10 + byte - 'a';
        else if ('A' <= byte && byte <= 'Z') rank[byte] = 36 + byte - 'A';
        else if (0x20 <= byte && byte < 0x7F) rank[byte] = 100 + byte;
        else rank[byte] = 300 + byte;
    }
    return rank;
}

const std::array<int, 256> kRank = ranks();

void sort_unique(std::vector<std::uint64_t>& words) {
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
}

}  // namespace

Automaton::Automaton(Rules rules, std::int64_t max_states)
    : rules_(std::move(rules)), max_states_(max_states) {
    const std::int32_t token_classes =
        rules_.reads_tokens() ? rules_.token_classes().count() : 0;
    end_of_token_ = rules_.class_count() + token_classes;
    columns_ = end_of_token_ + rules_.counts_tokens();
    begin();
}

void Automaton::begin() {
    place_of_rule_.assign(rules_.rule_count(), -1);
    continuations_.append({});  // the end of text: nothing waits
    remaining_.push_back(0);
    kernel_ = {make_item(rules_.start(rules_.root()), budgeted(rules_.root(), kEndOfText))};
    start_ = state_of_kernel();
}

void Automaton::flush() {
    is_broken_ = true;  // until all is there again
    first_id_ += state_count();
    ++generation_;
    continuations_ = systems_ = kernels_ = futures_ = Interner();
    remaining_ = {};
    first_of_system_ = {};
    state_of_kernel_ = {};
    known_ = {};
    transitions_ = {};
    budgets_ = {};
    with_budget_ = {};
    unions_ = Interner();
    state_of_union_ = {};
    members_ = {};
    begin();
    is_broken_ = false;
}

std::int64_t Automaton::to_end(std::int32_t node, std::int32_t continuation) const {
    return std::min(rules_.distance(node) + remaining_[continuation], kUnreachable);
}

State Automaton::unfold(State state, std::uint8_t byte) {
    if (!members(state).empty()) {
        State target = kDead;
        for (State member : std::vector<State>(members(state))) {
            target = union_of(target, step(member, byte));
        }
        return transitions_[row(state) + rules_.class_of(byte)] = target;
    }
    kernel_.clear();
    for (Item item : items(state)) {
        for (const ByteEdge& edge : rules_.byte_edges(node_of(item))) {
            if (may_read(continuation_of(item), edge, byte)) {
                kernel_.push_back(make_item(edge.target, behind(continuation_of(item), byte)));
            }
        }
    }
    return scan(state, rules_.class_of(byte));
}

State Automaton::unfold_token(State state, std::int32_t token_class) {
    const std::size_t column = rules_.class_count() + token_class;
    if (!members(state).empty()) {
        State target = kDead;
        for (State member : std::vector<State>(members(state))) {
            target = union_of(target, step_token(member, token_class));
        }
        return transitions_[row(state) + column] = target;
    }
    kernel_.clear();
    for (Item item : items(state)) {
        for (const TokenEdge& edge : rules_.token_edges(node_of(item))) {
            if (rules_.token_classes().reads(edge.set, token_class)) {
                kernel_.push_back(make_item(edge.target, continuation_of(item)));
            }
        }
    }
    return scan(state, column);
}

// Puts the kernel's state into the row of `state`.
State Automaton::scan(State state, std::size_t column) {
    if (state_count() / 4 >= max_states_) throw StatesExhausted();
    is_broken_ = true;  // until all is there
    const State target = kernel_.empty() ? kDead : state_of_kernel();
    transitions_[row(state) + column] = target;
    is_broken_ = false;
    return target;
}

// Counts the token down in the budgets, and drops what could not end its rule in what is left.
State Automaton::unfold_end_of_token(State state) {
    State target = kDead;
    if (!members(state).empty()) {
        for (State member : std::vector<State>(members(state))) {
            target = union_of(target, end_token(member));
        }
        return transitions_[row(state) + end_of_token_] = target;
    }
    if (state_count() / 4 >= max_states_) throw StatesExhausted();
    is_broken_ = true;  // until all is there
    accepting_ = accepting(state);
    future_.assign(1, accepting_);
    for (Item item : items(state)) {
        const Budget* budget = budget_of(continuation_of(item));
        if (budget == nullptr || budget->tokens == Rules::kNoBudget) {
            future_.push_back(item);
            continue;
        }
        Budget left = *budget;
        --left.tokens;
        if (left.tokens < std::max<std::int64_t>(rules_.distance(node_of(item)), 1)) continue;
        future_.push_back(make_item(node_of(item), with_budget(left)));
    }
    std::sort(future_.begin() + 1, future_.end());
    future_.erase(std::unique(future_.begin() + 1, future_.end()), future_.end());
    if (accepting_ || future_.size() > 1) target = state_of_future();
    transitions_[row(state) + end_of_token_] = target;
    is_broken_ = false;
    return target;
}

State Automaton::add_union(std::vector<State> states) {
    std::vector<std::uint64_t> key;
    for (State state : states) {
        const std::vector<State>& within = members(state);
        if (within.empty()) key.push_back(static_cast<std::uint64_t>(state));
        for (State member : within) key.push_back(static_cast<std::uint64_t>(member));
    }
    sort_unique(key);
    if (key.size() == 1) return static_cast<State>(key[0]);
    if (state_count() / 4 >= max_states_) throw StatesExhausted();
    is_broken_ = true;  // until all is there
    const Interner::Found found = unions_.intern(key);
    if (found.is_new) {
        accepting_ = false;
        future_.assign(1, false);
        for (std::uint64_t member : key) {
            const auto each = static_cast<State>(member);
            accepting_ = accepting_ || accepting(each);
            for (Item item : items(each)) future_.push_back(item);
        }
        future_[0] = accepting_;
        std::sort(future_.begin() + 1, future_.end());
        future_.erase(std::unique(future_.begin() + 1, future_.end()), future_.end());
        futures_.append(future_);  // beside a state that happens to have the same items
        state_of_union_.push_back(add_state());
        members_[state_of_union_.back()].assign(key.begin(), key.end());
    }
    is_broken_ = false;
    return state_of_union_[found.id];
}

State Automaton::state_of_kernel() {
    sort_unique(kernel_);
    const Interner::Found kernel = kernels_.intern(kernel_);
    if (!kernel.is_new && state_of_kernel_[kernel.id] >= 0) return state_of_kernel_[kernel.id];
    if (kernel.is_new) state_of_kernel_.push_back(kUnknown);
    close();
    return state_of_kernel_[kernel.id] = state_of_future();
}

State Automaton::state_of_future() {
    const Interner::Found future = futures_.intern(future_);
    return future.is_new ? add_state() : future.id;
}

State Automaton::add_state() {
    const State state = state_count();
    const Words own = items(state);
    std::int64_t shortest = accepting_ ? 0 : kUnreachable;
    for (Item item : own) {
        shortest = std::min(shortest, to_end(node_of(item), continuation_of(item)));
    }
    transitions_.resize(row(state + 1), kUnknown);
    known_.push_back({shortest, kUnchosen, kUnknownByte, accepting_, !own.empty()});
    return state;
}

// Earley's predictor and completer, until nothing new comes. Leaves `accepting` and the items from
// which something can be read in `future_`.
//
// A rule that is predicted here gets a provisional continuation, -1 - rule, since who waits for it
// is known only in the end. Nothing is completed through one: a rule predicted here and complete at
// once has read nothing, so it is nullable, and its waiting items are added as soon as it is
// predicted (Aycock and Horspool 2002).
void Automaton::close() {
    closed_.clear();
    predicted_.clear();
    accepting_ = false;
    for (Item item : kernel_) closed_.insert(item);
    for (std::size_t at = 0; at < closed_.size(); ++at) predict_and_complete(closed_[at]);

    resolve();
    future_.assign(1, accepting_);
    for (std::size_t at = 0; at < closed_.size(); ++at) {
        const Item item = closed_[at];
        if (rules_.byte_edges(node_of(item)).empty() && rules_.token_edges(node_of(item)).empty()) {
            continue;
        }
        const Item begun = begin_budget(item);
        if (can_read(begun)) future_.push_back(begun);
    }
    std::sort(future_.begin() + 1, future_.end());
    future_.erase(std::unique(future_.begin() + 1, future_.end()), future_.end());
    for (std::int32_t rule : predicted_) place_of_rule_[rule] = -1;
}

void Automaton::predict_and_complete(Item item) {
    const std::int32_t node = node_of(item), continuation = continuation_of(item);
    for (const RuleEdge& edge : rules_.rule_edges(node)) {
        const std::int32_t inside = rules_.start(edge.rule);
        if (rules_.tail(edge.target) && !rules_.has_budget(edge.rule)) {
            closed_.insert(make_item(inside, continuation));
            continue;
        }
        const Item behind = make_item(edge.target, continuation);
        std::int32_t& place = place_of_rule_[edge.rule];
        if (place < 0) {
            place = static_cast<std::int32_t>(predicted_.size());
            predicted_.push_back(edge.rule);
            if (waiting_.size() < predicted_.size()) {
                waiting_.emplace_back();
                depends_.emplace_back();
            }
            waiting_[place].clear();
        }
        waiting_[place].push_back(behind);
        closed_.insert(make_item(inside, -1 - edge.rule));
        if (rules_.nullable(edge.rule)) closed_.insert(behind);
    }
    if (rules_.final(node) && continuation >= 0) {
        if (waits_for_end_of_text(continuation)) accepting_ = true;
        for (Item behind : continuations_[continuation]) closed_.insert(behind);
    }
}

// Interns the continuations of the rules predicted at this position.
//
// The continuation of a rule depends on that of another if one of its waiting items stands inside
// the other's body. Rules that don't depend on themselves are interned by what waits, once those
// they depend on are. Rules in a loop are interned together, by their system of equations.
void Automaton::resolve() {
    const std::size_t count = predicted_.size();
    if (count == 0) return;
    resolved_.assign(count, -1);
    for (std::size_t place = 0; place < count; ++place) {
        sort_unique(waiting_[place]);
        depends_[place].clear();
        for (Item item : waiting_[place]) {
            const std::int32_t continuation = continuation_of(item);
            if (continuation < 0) depends_[place].push_back(place_of_rule_[-1 - continuation]);
        }
    }
    components_.find(depends_, count);
    in_component_.assign(count, -1);
    std::size_t from = 0;
    for (std::size_t component = 0; component < components_.ends.size(); ++component) {
        const std::size_t to = components_.ends[component];
        std::int32_t* places = components_.members.data() + from;
        const std::int32_t alone = places[0];
        const bool depends_on_itself =
            std::find(depends_[alone].begin(), depends_[alone].end(), alone) !=
            depends_[alone].end();
        if (to - from == 1 && !depends_on_itself) {
            resolved_[alone] = intern_alone(alone);
        } else {
            for (std::size_t at = from; at < to; ++at) {
                in_component_[components_.members[at]] = static_cast<std::int32_t>(component);
            }
            std::sort(places, places + (to - from), [this](std::int32_t a, std::int32_t b) {
                return predicted_[a] < predicted_[b];
            });
            intern_loop(places, to - from);
        }
        from = to;
    }
}

Item Automaton::settle(Item item) const {
    const std::int32_t continuation = continuation_of(item);
    if (continuation >= 0) return item;
    return make_item(node_of(item), resolved_[place_of_rule_[-1 - continuation]]);
}

// The item as it stands in a state; one of a rule that begins here begins its budget.
Item Automaton::begin_budget(Item item) {
    const std::int32_t continuation = continuation_of(item);
    const Item settled = settle(item);
    if (continuation >= 0) return settled;
    return make_item(node_of(item), budgeted(-1 - continuation, continuation_of(settled)));
}

// The continuation of a rule that begins here: the token at hand is not counted.
std::int32_t Automaton::budgeted(std::int32_t rule, std::int32_t continuation) {
    if (!rules_.has_budget(rule)) return continuation;
    const std::int32_t tokens = rules_.token_budget(rule);
    const std::int32_t at_hand = tokens == Rules::kNoBudget ? tokens : tokens + 1;
    return with_budget({continuation, at_hand, rules_.character_budget(rule)});
}

// The continuation behind a rule that has this left.
std::int32_t Automaton::with_budget(Budget budget) {
    const auto [place, is_new] =
        with_budget_.emplace(std::array{budget.behind, budget.tokens, budget.characters}, 0);
    if (is_new) {
        const Words waiting = continuations_[budget.behind];
        place->second = continuations_.append({waiting.begin(), waiting.end()});
        remaining_.push_back(remaining_[budget.behind]);
        budgets_[place->second] = budget;
    }
    return place->second;
}

// Whether the edge reads the byte, and the characters that are left allow that.
bool Automaton::may_read(std::int32_t continuation, const ByteEdge& edge, int byte) const {
    if (byte < edge.low || edge.high < byte) return false;
    const Budget* budget = budget_of(continuation);
    if (budget == nullptr || budget->characters == Rules::kNoBudget) return true;
    return rules_.characters(edge.target) <= budget->characters - Rules::begins_character(byte);
}

// The continuation of an item, one byte later.
std::int32_t Automaton::behind(std::int32_t continuation, int byte) {
    const Budget* budget = budget_of(continuation);
    if (budget == nullptr || budget->characters == Rules::kNoBudget) return continuation;
    Budget left = *budget;
    left.characters -= Rules::begins_character(byte);
    return with_budget(left);
}

bool Automaton::can_read(Item item) const {
    if (budget_of(continuation_of(item)) == nullptr ||
        !rules_.token_edges(node_of(item)).empty()) {
        return true;
    }
    for (const ByteEdge& edge : rules_.byte_edges(node_of(item))) {
        // The first bytes of its parts; of bytes that are alike in this any will do.
        for (int byte : {int{edge.low}, 0x80, 0xC0}) {
            if (may_read(continuation_of(item), edge, byte)) return true;
        }
    }
    return false;
}

bool Automaton::waits_for_end_of_text(std::int32_t continuation) const {
    const Budget* budget = budget_of(continuation);
    return (budget == nullptr ? continuation : budget->behind) == kEndOfText;
}

std::int32_t Automaton::intern_alone(std::int32_t place) {
    equations_.clear();
    for (Item item : waiting_[place]) equations_.push_back(settle(item));
    sort_unique(equations_);
    const Interner::Found found = continuations_.intern(equations_);
    if (found.is_new) {
        std::int64_t shortest = kUnreachable;
        for (Item item : equations_) {
            shortest = std::min(shortest, to_end(node_of(item), continuation_of(item)));
        }
        remaining_.push_back(shortest);
    }
    return found.id;
}

// The key of a system: for each of its rules, in order, the rule, the number of its waiting items,
// and these. Items inside the loop keep their provisional continuation, which names the rule.
void Automaton::intern_loop(const std::int32_t* places, std::size_t count) {
    std::vector<Item> settled;
    equations_.clear();
    for (std::size_t at = 0; at < count; ++at) {
        const std::int32_t place = places[at];
        settled.clear();
        for (Item item : waiting_[place]) {
            const std::int32_t continuation = continuation_of(item);
            const bool inside =
                continuation < 0 && in_component_[place_of_rule_[-1 - continuation]] ==
                                        in_component_[place];
            settled.push_back(inside ? item : settle(item));
        }
        sort_unique(settled);
        equations_.push_back(static_cast<std::uint64_t>(predicted_[place]));
        equations_.push_back(settled.size());
        equations_.insert(equations_.end(), settled.begin(), settled.end());
    }
    const Interner::Found system = systems_.intern(equations_);
    if (system.is_new) {
        first_of_system_.push_back(static_cast<std::int32_t>(continuations_.size()));
    }
    const std::int32_t first = first_of_system_[system.id];
    for (std::size_t at = 0; at < count; ++at) {
        resolved_[places[at]] = first + static_cast<std::int32_t>(at);
    }
    if (!system.is_new) return;

    for (std::size_t at = 0; at < count; ++at) {
        settled.clear();
        for (Item item : waiting_[places[at]]) settled.push_back(settle(item));
        sort_unique(settled);
        continuations_.append(settled);
        remaining_.push_back(kUnreachable);
    }
    // Distances by relaxation, since the members depend on each other.
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t at = 0; at < count; ++at) {
            const std::int32_t member = first + static_cast<std::int32_t>(at);
            for (Item item : continuations_[member]) {
                const std::int64_t length = to_end(node_of(item), continuation_of(item));
                if (length < remaining_[member]) {
                    remaining_[member] = length;
                    changed = true;
                }
            }
        }
    }
}

// The preferred byte among those on a shortest completion, else a token set.
void Automaton::choose_first_symbol(State state) {
    const std::int64_t after = known_[state].shortest - 1;
    int best = -1;
    std::int32_t set = -1;
    for (Item item : items(state)) {
        for (const ByteEdge& edge : rules_.byte_edges(node_of(item))) {
            if (to_end(edge.target, continuation_of(item)) != after) continue;
            for (int byte = edge.low; byte <= edge.high; ++byte) {
                if (!may_read(continuation_of(item), edge, byte)) continue;
                if (best < 0 || kRank[byte] < kRank[best]) best = byte;
            }
        }
        for (const TokenEdge& edge : rules_.token_edges(node_of(item))) {
            if (to_end(edge.target, continuation_of(item)) != after) continue;
            if (set < 0 || edge.set < set) set = edge.set;
        }
    }
    if (best < 0 && set < 0) {
        throw std::logic_error("a state has no way along its shortest completion");
    }
    known_[state].first_symbol = best >= 0 ? best : -1 - set;
}

std::string Automaton::allowed_bytes(State state) const {
    std::string allowed;
    if (state == kDead) return allowed;
    std::array<bool, 256> seen{};
    for (Item item : items(state)) {
        for (const ByteEdge& edge : rules_.byte_edges(node_of(item))) {
            for (int byte = edge.low; byte <= edge.high; ++byte) {
                seen[byte] = seen[byte] || may_read(continuation_of(item), edge, byte);
            }
        }
    }
    for (int byte = 0; byte < 256; ++byte) {
        if (seen[byte]) allowed.push_back(static_cast<char>(byte));
    }
    return allowed;
}

int Automaton::find_forced_byte(State state) const {
    if (accepting(state)) return kNoByte;
    int found = kNoByte;
    for (Item item : items(state)) {
        // Tokens are read as a whole, or counted.
        const Budget* budget = budget_of(continuation_of(item));
        const bool counts_tokens = budget != nullptr && budget->tokens != Rules::kNoBudget;
        if (counts_tokens || !rules_.token_edges(node_of(item)).empty()) return kNoByte;
        for (const ByteEdge& edge : rules_.byte_edges(node_of(item))) {
            for (int byte = edge.low; byte <= edge.high; ++byte) {
                if (byte == found || !may_read(continuation_of(item), edge, byte)) continue;
                if (found != kNoByte) return kNoByte;
                found = byte;
            }
        }
    }
    return found;
}

std::string Automaton::forced_bytes(State state, std::int64_t limit) {
    std::string forced;
    while (state != kDead && static_cast<std::int64_t>(forced.size()) < limit) {
        const int byte = forced_byte(state);
        if (byte == kNoByte) break;
        forced.push_back(static_cast<char>(byte));
        state = step(state, static_cast<std::uint8_t>(byte));
    }
    return forced;
}

std::size_t Automaton::bytes() const {
    return continuations_.bytes() + systems_.bytes() + kernels_.bytes() + futures_.bytes() +
           unions_.bytes() +
           remaining_.capacity() * sizeof(std::int64_t) + known_.capacity() * sizeof(Known) +
           (transitions_.capacity() + state_of_kernel_.capacity()) * sizeof(State);
}

}  // namespace lave
