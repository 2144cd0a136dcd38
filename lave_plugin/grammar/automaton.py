"""States of a grammar: an Earley parser (Earley 1970) whose item sets are interned.

An item is a pair (node, continuation): the parser has come to `node` of some rule's automaton, and
`continuation` says what may follow that rule. Where Earley notes the position at which the rule
began, to look up there later who was waiting for it, a continuation *is* those who wait: a set of
items, interned by content. Nothing in a state names a position, so texts with the same future come
to the same state, and the parser is a deterministic automaton that is unfolded as it is walked:
**equal id means equal future**.

Three things keep the states few:

- A rule reference that ends its rule adds no continuation; the referenced rule inherits the one of
  its caller (tail calls, the case that Leo 1991 treats for right recursion).
- Rules that are predicted in a loop at one position (left recursion) wait for each other; their
  continuations are interned together, as one system of equations (`_resolve`).
- A state is interned twice: by the items that a byte has led to, and by the items from which a
  byte can be read.

Grammars may speak of tokens. A token is read as its bytes, or as a whole by an edge that names it;
where both go on, the state behind it is a *union*, which keeps its members apart: whatever is known
of the ways on from a member then holds of the union.

And they may count them, and characters: a rule with a budget refers to no other, so what is left of
the budget is kept with the continuation of its items. Characters are counted down by the byte that
begins one, tokens by `end_token`, between two of them. What could not end its rule within what is
left is dropped, where each byte to the end may take a token; so any item that there is can end its
rule.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lave_plugin.grammar.nfa import TokenSet
from lave_plugin.grammar.normal_form import UNREACHABLE, RuleAutomata
from lave_plugin.grammar.utf8 import split_at_characters

DEAD = -1

END_OF_TEXT = 0
"""The continuation of the root rule: nothing follows."""

Item = tuple[int, int]

# Besides the bytes, these keys are in the transitions of a state: the end of a token, and from
# _TOKENS on the classes of tokens.
_END_OF_TOKEN = 256
_TOKENS = 257

# Which byte a shortest completion takes where several will do: something a human would write and
# any tokenizer knows. The choice must depend on the state alone.
_PREFERRED = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
RANK = {byte: rank for rank, byte in enumerate(_PREFERRED)}
RANK.update({byte: 100 + byte for byte in range(0x20, 0x7F) if byte not in RANK})
RANK.update({byte: 300 + byte for byte in range(256) if byte not in RANK})


class _Budget(NamedTuple):
    """What a rule with a budget may still read."""

    behind: int
    """The continuation of the rule."""
    tokens: int | None
    """The one at hand included; None where they are not counted."""
    characters: int | None


class Automaton:
    """States of one grammar, unfolded lazily; equal id means equal future.

    Every state that is not DEAD can be completed to a sentence.
    """

    def __init__(self, rules: RuleAutomata, token_classes: "TokenClasses | None" = None) -> None:
        self._rules = rules
        self._nullable = [rules.distance[start] == 0 for start in rules.start]
        # A node behind which its rule has nothing left to read.
        self._is_tail = [
            final and not byte_edges and not rule_edges and node not in rules.token_edges
            for node, (final, byte_edges, rule_edges) in enumerate(
                zip(rules.final, rules.byte_edges, rules.rule_edges, strict=True)
            )
        ]
        self.token_classes = token_classes or TokenClasses(rules.token_sets)
        self.reads_tokens = bool(rules.token_sets or rules.token_budgets)
        """Whether a token is more to the grammar than its bytes."""
        self.generation = -1
        """How often the states have been dropped and numbered anew."""
        self.drop_states()

    def drop_states(self) -> None:
        """Begin anew, to free memory; states from before mean nothing any more."""
        self.generation += 1

        # Continuations: the items that wait, and the fewest bytes from there to the end of text.
        self._waiting: list[tuple[Item, ...]] = [()]
        self._remaining: list[int] = [0]
        self._continuation_ids: dict[frozenset | tuple, int] = {}
        # With a budget: by the id of the continuation, and the other way round.
        self._budget: dict[int, _Budget] = {}
        self._with_budget: dict[_Budget, int] = {}

        # States: the items from which a byte can be read, and what is known about each state.
        self._items: list[tuple[Item, ...]] = []
        self._accepting: list[bool] = []
        self._shortest: list[int] = []
        self._first_symbol: list[int | None] = []
        self._transitions: list[dict[int, int]] = []
        self._by_kernel: dict[frozenset[Item], int] = {}
        self._by_future: dict[tuple[bool, frozenset[Item]], int] = {}

        # Unions, by their members in order.
        self._members: dict[int, tuple[int, ...]] = {}
        self._by_members: dict[tuple[int, ...], int] = {}

        self.start = self._state_of(frozenset([self._first_item()]))

    def _first_item(self) -> Item:
        root = self._rules.root
        return self._rules.start[root], self._budgeted(root, END_OF_TEXT)

    @property
    def is_recursive(self) -> bool:
        """Whether some rule refers to itself, maybe by way of others; if not, states are finite."""
        rules = self._rules
        refers_to: dict[int, list[int]] = {}
        for rule, start in enumerate(rules.start):
            seen, pending, referred = {start}, [start], set()
            while pending:
                node = pending.pop()
                referred.update(other for other, _ in rules.rule_edges[node])
                following = {target for _, target in rules.rule_edges[node]}
                following.update(target for _, _, target in rules.byte_edges[node])
                following.update(target for _, target in rules.token_edges.get(node, ()))
                pending += following - seen
                seen |= following
            refers_to[rule] = sorted(referred)
        return any(
            len(component) > 1 or component[0] in refers_to[component[0]]
            for component in strong_components(refers_to)
        )

    @property
    def state_count(self) -> int:
        """How many states have been unfolded so far."""
        return len(self._items)

    def step(self, state: int, byte: int) -> int:
        """The state behind one byte; DEAD if no sentence goes on that way."""
        if state == DEAD:
            return DEAD
        target = self._transitions[state].get(byte)
        if target is None:
            target = self._transitions[state][byte] = self._unfold(state, byte)
        return target

    def run(self, state: int, data: bytes) -> int:
        """The state behind some bytes; DEAD if no sentence goes on that way."""
        if state == DEAD:
            return DEAD
        transitions = self._transitions
        for byte in data:
            target = transitions[state].get(byte)
            if target is None:
                target = self.step(state, byte)
            if target == DEAD:
                return DEAD
            state = target
        return state

    def step_token(self, state: int, token: int, is_text: bool) -> int:
        """The state behind a token that is read as a whole; DEAD if no edge reads it.

        What is not text is read only by an edge that names it. The token must not be one that ends
        the text.
        """
        if state == DEAD:
            return DEAD
        return self._step_class(state, self.token_classes.class_of(token, is_text))

    def _step_class(self, state: int, token_class: int) -> int:
        key = _TOKENS + token_class
        target = self._transitions[state].get(key)
        if target is None:
            target = self._transitions[state][key] = self._unfold_token(state, token_class)
        return target

    def end_token(self, state: int) -> int:
        """The state between the token that has led to `state` and the next one."""
        if state == DEAD or not self._rules.token_budgets:
            return state
        target = self._transitions[state].get(_END_OF_TOKEN)
        if target is None:
            target = self._transitions[state][_END_OF_TOKEN] = self._end_token(state)
        return target

    def union(self, states: Iterable[int]) -> int:
        """The state from which goes on what goes on from any of `states`."""
        members = {
            member
            for state in states
            if state != DEAD
            for member in self._members.get(state, (state,))
        }
        if len(members) < 2:
            return members.pop() if members else DEAD
        key = tuple(sorted(members))
        union = self._by_members.get(key)
        if union is None:
            items = frozenset(item for member in key for item in self._items[member])
            accepting = any(self._accepting[member] for member in key)
            union = self._by_members[key] = self._add_state(items, accepting)
            self._members[union] = key
        return union

    def members(self, state: int) -> tuple[int, ...]:
        """The states that a union is of; of another state itself."""
        return self._members.get(state, (state,))

    def accepting(self, state: int) -> bool:
        """Whether the text so far is a sentence."""
        return state != DEAD and self._accepting[state]

    def can_continue(self, state: int) -> bool:
        """Whether some byte may follow; if not, only the end of text is left."""
        return state != DEAD and bool(self._items[state])

    def shortest_length(self, state: int) -> int:
        """Bytes to the nearest end of a sentence, exact; a token read as a whole counts as one."""
        if state == DEAD:
            raise ValueError("a dead state has no completion")
        return self._shortest[state]

    def shortest_completion(self, state: int) -> bytes:
        """A shortest string that completes the sentence.

        Which one is a function of the state: the completion of the state behind its first byte is
        the rest of it.

        Raises:
            LookupError: If a token has to be read as a whole on the way; see `first_symbol`.
        """
        completion = bytearray()
        for _ in range(self.shortest_length(state)):
            byte = self.first_symbol(state)
            if byte < 0:
                raise LookupError("a token stands on the way, which is no string of bytes")
            completion.append(byte)
            state = self.step(state, byte)
        return bytes(completion)

    def first_symbol(self, state: int) -> int:
        """What the shortest completion begins with: a byte, or -1 - the index of a token set.

        The state must not accept.
        """
        symbol = self._first_symbol[state]
        if symbol is None:
            symbol = self._first_symbol[state] = self._choose_first_symbol(state)
        return symbol

    def allowed_bytes(self, state: int) -> bytes:
        """All bytes that may follow within a token, in ascending order."""
        if state == DEAD:
            return b""
        allowed: set[int] = set()
        for item in self._items[state]:
            for low, high, _, _ in self._byte_ways(item):
                allowed.update(range(low, high + 1))
        return bytes(sorted(allowed))

    def spells_by_byte(self, state: int) -> bool:
        """Whether the rest of a shortest completion is known only as tokens of one byte each.

        Here never: of the rules that count tokens none holds another, so whatever spells the
        shortest way to the end of one, in fewer tokens than bytes, leaves it the shortest.
        """
        return False

    def forced_bytes(self, state: int, limit: int = 64) -> bytes:
        """The longest string, up to `limit` bytes, that is the only way on.

        It stops where the sentence may end, since there the end of text is another way, and where
        tokens are read as a whole or counted.
        """
        forced = bytearray()
        while len(forced) < limit and not self.accepting(state):
            if self.reads_tokens and any(map(self._minds_tokens, self._items[state])):
                break
            allowed = self.allowed_bytes(state)
            if len(allowed) != 1:
                break
            forced += allowed
            state = self.step(state, allowed[0])
        return bytes(forced)

    def _minds_tokens(self, item: Item) -> bool:
        node, continuation = item
        budget = self._budget.get(continuation)
        return node in self._rules.token_edges or (budget is not None and budget.tokens is not None)

    def _unfold(self, state: int, byte: int) -> int:
        """Scan one byte: move every item over it, then predict and complete."""
        if state in self._members:
            return self.union(self.step(member, byte) for member in self._members[state])
        kernel = frozenset(
            (target, self._behind(item[1], begun))
            for item in self._items[state]
            for low, high, target, begun in self._byte_ways(item)
            if low <= byte <= high
        )
        return self._state_of(kernel) if kernel else DEAD

    def _byte_ways(self, item: Item) -> Iterator[tuple[int, int, int, int]]:
        """Bytes that can be read from an item: (low, high, target, characters that they begin)."""
        node, continuation = item
        budget = self._budget.get(continuation)
        if budget is None or budget.characters is None:
            for low, high, target in self._rules.byte_edges[node]:
                yield low, high, target, 0
            return
        for low, high, target in self._rules.byte_edges[node]:
            for first, last, begun in split_at_characters(low, high):
                if self._rules.characters[target] <= budget.characters - begun:
                    yield first, last, target, begun

    def _behind(self, continuation: int, begun: int) -> int:
        """The continuation of an item, some characters later."""
        if not begun:
            return continuation
        budget = self._budget[continuation]
        return self._with_budget_of(budget._replace(characters=budget.characters - begun))

    def _unfold_token(self, state: int, token_class: int) -> int:
        """Scan one token as a whole."""
        if state in self._members:
            return self.union(
                self._step_class(member, token_class) for member in self._members[state]
            )
        read_by = self.token_classes.read_by[token_class]
        kernel = frozenset(
            (target, continuation)
            for node, continuation in self._items[state]
            for tokens, target in self._rules.token_edges.get(node, ())
            if tokens in read_by
        )
        return self._state_of(kernel) if kernel else DEAD

    def _end_token(self, state: int) -> int:
        """Put in place of each item the one that outlives the token."""
        if state in self._members:
            return self.union(self.end_token(member) for member in self._members[state])
        items = set()
        for node, continuation in self._items[state]:
            budget = self._budget.get(continuation)
            if budget is not None and budget.tokens is not None:
                left = budget.tokens - 1
                if left < max(self._rules.distance[node], 1):
                    continue
                continuation = self._with_budget_of(budget._replace(tokens=left))
            items.add((node, continuation))
        accepting = self._accepting[state]
        return self._state_with(frozenset(items), accepting) if items or accepting else DEAD

    def _state_of(self, kernel: frozenset[Item]) -> int:
        state = self._by_kernel.get(kernel)
        if state is None:
            state = self._by_kernel[kernel] = self._state_with(*self._close(kernel))
        return state

    def _state_with(self, items: frozenset[Item], accepting: bool) -> int:
        future = (accepting, items)
        state = self._by_future.get(future)
        if state is None:
            state = self._by_future[future] = self._add_state(items, accepting)
        return state

    def _add_state(self, items: frozenset[Item], accepting: bool) -> int:
        self._items.append(tuple(sorted(items)))
        self._accepting.append(accepting)
        self._shortest.append(0 if accepting else self._shortest_of(items))
        self._first_symbol.append(None)
        self._transitions.append({})
        return len(self._items) - 1

    def _shortest_of(self, items: frozenset[Item]) -> int:
        distance, remaining = self._rules.distance, self._remaining
        return min(distance[node] + remaining[continuation] for node, continuation in items)

    def _close(self, kernel: frozenset[Item]) -> tuple[frozenset[Item], bool]:
        """Earley's predictor and completer, until nothing new comes.

        Returns the items from which something can be read, and whether the text may end here.

        A rule that is predicted here gets a provisional continuation, since who waits for it is
        known only in the end: -1 - rule. Nothing is completed through a provisional continuation.
        A rule predicted here and complete at once has read nothing, so it is nullable, and its
        waiting items are added as soon as it is predicted (Aycock and Horspool 2002).
        """
        rules = self._rules
        items: set[Item] = set(kernel)
        pending = list(kernel)
        waiting: dict[int, set[Item]] = {}
        accepting = False
        while pending:
            node, continuation = pending.pop()
            new: list[Item] = []
            for rule, target in rules.rule_edges[node]:
                if self._is_tail[target] and not rules.has_budget(rule):
                    new.append((rules.start[rule], continuation))
                    continue
                waiting.setdefault(rule, set()).add((target, continuation))
                new.append((rules.start[rule], -1 - rule))
                if self._nullable[rule]:
                    new.append((target, continuation))
            if rules.final[node] and continuation >= 0:
                budget = self._budget.get(continuation)
                if (continuation if budget is None else budget.behind) == END_OF_TEXT:
                    accepting = True
                new.extend(self._waiting[continuation])
            for item in new:
                if item not in items:
                    items.add(item)
                    pending.append(item)
        resolved = self._resolve(waiting)
        if rules.token_budgets or rules.character_budgets:
            resolved = {rule: self._budgeted(rule, behind) for rule, behind in resolved.items()}
        settled = (
            (node, continuation if continuation >= 0 else resolved[-1 - continuation])
            for node, continuation in items
        )
        return frozenset(item for item in settled if self._can_read(item)), accepting

    def _can_read(self, item: Item) -> bool:
        node, continuation = item
        if node in self._rules.token_edges:
            return True
        if continuation not in self._budget:
            return bool(self._rules.byte_edges[node])
        return any(self._byte_ways(item))

    def _resolve(self, waiting: dict[int, set[Item]]) -> dict[int, int]:
        """Intern the continuations of the rules predicted at one position.

        The continuation of a rule depends on that of another if one of its waiting items stands
        inside the other's body. Rules that don't depend on themselves are interned by what waits,
        once those they depend on are. Rules in a loop are interned together: the system of their
        equations is the key, with the names of the rules inside it.
        """
        resolved: dict[int, int] = {}
        for component in strong_components(
            {
                rule: [-1 - continuation for _, continuation in items if continuation < 0]
                for rule, items in waiting.items()
            }
        ):
            inside = set(component)

            def settle(item: Item, inside: set[int] = inside) -> Item:
                node, continuation = item
                if continuation >= 0 or -1 - continuation in inside:
                    return item
                return node, resolved[-1 - continuation]

            equations = {rule: frozenset(map(settle, waiting[rule])) for rule in component}
            rule = component[0]
            if len(component) == 1 and all(
                continuation >= 0 for _, continuation in equations[rule]
            ):
                resolved[rule] = self._continuation(equations[rule], tuple(equations[rule]))
                continue
            system = frozenset(equations.items())
            known = (system, rule) in self._continuation_ids
            for rule in component:
                resolved[rule] = self._continuation((system, rule), ())
            if not known:
                self._fill_loop(equations, resolved)
        return resolved

    def _budgeted(self, rule: int, continuation: int) -> int:
        """The continuation of a rule that begins here: the token at hand is not counted."""
        if not self._rules.has_budget(rule):
            return continuation
        tokens = self._rules.token_budgets.get(rule)
        characters = self._rules.character_budgets.get(rule)
        at_hand = None if tokens is None else tokens + 1
        return self._with_budget_of(_Budget(continuation, at_hand, characters))

    def _with_budget_of(self, budget: _Budget) -> int:
        """The continuation behind a rule that has this left."""
        found = self._with_budget.get(budget)
        if found is None:
            found = self._with_budget[budget] = len(self._waiting)
            self._budget[found] = budget
            self._waiting.append(self._waiting[budget.behind])
            self._remaining.append(self._remaining[budget.behind])
        return found

    def _continuation(self, key: frozenset | tuple, waiting: tuple[Item, ...]) -> int:
        """The id of a continuation; one that is part of a loop is filled afterwards."""
        found = self._continuation_ids.get(key)
        if found is None:
            found = self._continuation_ids[key] = len(self._waiting)
            self._waiting.append(waiting)
            distance = self._rules.distance
            self._remaining.append(
                min(
                    (distance[node] + self._remaining[behind] for node, behind in waiting),
                    default=UNREACHABLE,
                )
            )
        return found

    def _fill_loop(self, equations: dict[int, frozenset[Item]], resolved: dict[int, int]) -> None:
        """Give the continuations of a loop their items, and their distances by relaxation."""
        distance, remaining = self._rules.distance, self._remaining
        members = []
        for rule, items in equations.items():
            member = resolved[rule]
            members.append(member)
            self._waiting[member] = tuple(
                (node, behind if behind >= 0 else resolved[-1 - behind]) for node, behind in items
            )
        changed = True
        while changed:
            changed = False
            for member in members:
                shortest = min(
                    distance[node] + remaining[behind] for node, behind in self._waiting[member]
                )
                if shortest < remaining[member]:
                    remaining[member] = shortest
                    changed = True

    def _choose_first_symbol(self, state: int) -> int:
        """The preferred byte among those that lie on a shortest completion, else a token set."""
        distance, remaining = self._rules.distance, self._remaining
        after = self._shortest[state] - 1
        best = None
        for item in self._items[state]:
            for low, high, target, _ in self._byte_ways(item):
                if distance[target] + remaining[item[1]] == after:
                    byte = min(range(low, high + 1), key=RANK.__getitem__)
                    if best is None or RANK[byte] < RANK[best]:
                        best = byte
        if best is not None:
            return best
        return -1 - min(
            tokens
            for node, continuation in self._items[state]
            for tokens, target in self._rules.token_edges.get(node, ())
            if distance[target] + remaining[continuation] == after
        )


class TokenClasses:
    """Tokens that no set of a grammar tells apart are one class.

    Class 2 * signature + is_text, where a signature stands for the sets that list the token; 0 for
    the tokens that none does. Where characters of tokens count, those of different length are told
    apart as well.

    `characters` has for each token how many begin in its text, None for those without text.
    """

    def __init__(
        self, sets: Sequence[TokenSet], characters: Sequence[int | None] | None = None
    ) -> None:
        listed_in: dict[int, list[int]] = {}
        for index, tokens in enumerate(sets):
            for token in tokens.ids:
                listed_in.setdefault(token, []).append(index)
        length_of = dict(enumerate(characters or ()))
        signatures: dict[tuple[tuple[int, ...], int | None], int] = {((), None): 0}
        self.signature = {
            token: signatures.setdefault(
                (tuple(listed_in.get(token, ())), length_of.get(token)), len(signatures)
            )
            for token in sorted({*listed_in, *length_of})
        }
        """Of the tokens that are listed, or have characters that count, in ascending order."""
        excluding = {index for index, tokens in enumerate(sets) if tokens.excluded}
        self.read_by: list[frozenset[int]] = []
        """For each class the sets that hold its tokens."""
        self.characters: list[int | None] = []
        """For each class the characters of its tokens, where they count."""
        for signature, length in signatures:
            named = set(signature) - excluding
            self.read_by += [frozenset(named), frozenset(named | excluding.difference(signature))]
            self.characters += [length, length]
        self.named = frozenset(
            token for tokens in sets if not tokens.excluded for token in tokens.ids
        )
        """Tokens that a grammar takes because it names them."""

    def class_of(self, token: int, is_text: bool) -> int:
        """The class of a token that doesn't end the text."""
        return 2 * self.signature.get(token, 0) + is_text


def strong_components(depends_on: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components, dependencies first (Tarjan 1972), without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[list[int]] = []
    for root in depends_on:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(depends_on[root]))]
        while path:
            vertex, rest = path[-1]
            for successor in rest:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    path.append((successor, iter(depends_on[successor])))
                    break
                if successor in on_stack:
                    low[vertex] = min(low[vertex], index[successor])
            else:
                path.pop()
                if path:
                    caller = path[-1][0]
                    low[caller] = min(low[caller], low[vertex])
                if low[vertex] == index[vertex]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == vertex:
                            break
                    components.append(component)
    return components
