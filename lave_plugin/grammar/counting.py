"""States of grammars with limits that hold over rules within rules.

`max_tokens` and `max_chars` follow the derivation: a rule that begins where another is counted may
read what is left there, or what it may read itself, whichever is less (as in xgrammar's
`DeadlineForRule`, `cpp/earley_parser.h`). So an item carries what it may still read, in tokens and
in characters. Those who wait for a rule with a limit of its own remember by how much more they may
read than it: that difference is the same when it ends. So a continuation holds no count.

Tokens are counted from the one behind that at hand on. A state between two tokens is another than
one within a token, since the next byte begins a token there.

An item is kept only where it can be completed to a sentence within all limits, though each byte
should take a token. The cheapest way to the end is found over (continuation, what is left). Where
characters count, that is the way of the fewest characters, and of those the one of the fewest
bytes; else that of the fewest bytes. So limits of one kind are exact. In a grammar with both kinds
the way of the fewest characters may need more bytes than there are tokens left, where another would
not; the answer does not go there then.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lave_plugin.grammar.automaton import (
    DEAD,
    END_OF_TEXT,
    RANK,
    Automaton,
    TokenClasses,
    strong_components,
)
from lave_plugin.grammar.errors import UnsupportedGrammar
from lave_plugin.grammar.limits import too_few_tokens
from lave_plugin.grammar.normal_form import RuleAutomata
from lave_plugin.grammar.utf8 import split_at_characters

UNLIMITED = 1 << 60
"""What is left where nothing is counted."""

_CHARACTER = 1 << 40
"""What a character costs where characters count; a byte costs 1, and so does a token as a whole."""

_TOO_MANY = 1 << 32
"""Characters of a token that has no text: more than any limit leaves."""

_NEVER = 1 << 100

# node, continuation, tokens left, characters left
CountedItem = tuple[int, int, int, int]

# Of an item that waits the differences instead of what is left.
Waiting = tuple[int, int, int, int]


class CountingAutomaton(Automaton):
    """States of a grammar whose limits `automaton.Automaton` can't count."""

    def __init__(self, rules: RuleAutomata, characters: Sequence[int | None] | None = None) -> None:
        """`characters` is that of `TokenClasses`.

        Raises:
            UnsupportedGrammar: If the limits leave no sentence, or may not suffice for any string
                of some rule.
        """
        self._per_character = _CHARACTER if rules.character_budgets else 0
        if not (rules.character_budgets and rules.token_sets):
            characters = None
        classes = TokenClasses(rules.token_sets, characters)
        self._set_characters = [
            min((length for length in lengths if length), default=_TOO_MANY)
            for lengths in _lengths_by_set(classes, len(rules.token_sets))
        ]
        self._costs = self._cheapest_ways(rules)
        super().__init__(self._without_dead_ends(rules), classes)

    def drop_states(self) -> None:
        self._rest: dict[tuple[int, int, int], int] = {}
        self._between_tokens: set[int] = set()
        super().drop_states()

    def _first_item(self) -> CountedItem:
        rules = self._rules
        # Behind the root rule, as behind any with a limit, nothing is counted.
        return rules.start[rules.root], END_OF_TEXT, *self._own_limits(rules.root)

    def _own_limits(self, rule: int) -> tuple[int, int]:
        rules = self._rules
        return (
            rules.token_budgets.get(rule, UNLIMITED),
            rules.character_budgets.get(rule, UNLIMITED),
        )

    # --- costs ------------------------------------------------------------------------------------

    def _cost(self, characters: int) -> int:
        """Of a byte, or a token as a whole, with so many characters."""
        return characters * self._per_character + 1

    def _cheapest_ways(self, rules: RuleAutomata) -> list[int]:
        """From each node to the end of its rule (as `normal_form.shortest_distances`)."""
        count = len(rules.final)
        sources: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        callers: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        uses: list[list[tuple[int, int]]] = [[] for _ in rules.start]
        rules_at: dict[int, list[int]] = {}
        for rule, start in enumerate(rules.start):
            rules_at.setdefault(start, []).append(rule)
        for node in range(count):
            for low, high, target in rules.byte_edges[node]:
                least = min(begun for _, _, begun in split_at_characters(low, high))
                sources[target].append((node, self._cost(least)))
            for tokens, target in rules.token_edges.get(node, ()):
                sources[target].append((node, self._cost(self._set_characters[tokens])))
            for rule, target in rules.rule_edges[node]:
                callers[target].append((node, rule))
                uses[rule].append((node, target))

        costs = [_NEVER] * count
        of_rule = [_NEVER] * len(rules.start)
        queue = [(0, node) for node in range(count) if rules.final[node]]
        while queue:
            cost, node = heapq.heappop(queue)
            if costs[node] <= cost:
                continue
            costs[node] = cost
            for source, step in sources[node]:
                heapq.heappush(queue, (cost + step, source))
            for source, rule in callers[node]:
                if of_rule[rule] < _NEVER:
                    heapq.heappush(queue, (cost + of_rule[rule], source))
            for rule in rules_at.get(node, ()):
                characters, length = divmod(cost, _CHARACTER)
                most = rules.token_budgets.get(rule, UNLIMITED)
                if length > most:
                    raise too_few_tokens(rules.names[rule], most, length)
                if characters > rules.character_budgets.get(rule, UNLIMITED):
                    continue
                of_rule[rule] = cost
                for source, target in uses[rule]:
                    if costs[target] < _NEVER:
                        heapq.heappush(queue, (cost + costs[target], source))
        if of_rule[rules.root] == _NEVER:
            raise UnsupportedGrammar(
                "The grammar has no sentence within its limits (max_chars, max_tokens); loosen"
                " them."
            )
        self._cost_of_rule = of_rule
        return costs

    def _without_dead_ends(self, rules: RuleAutomata) -> RuleAutomata:
        """The same without edges from which the limits leave no way to the end."""
        costs, of_rule = self._costs, self._cost_of_rule
        return replace(
            rules,
            byte_edges=[
                tuple(edge for edge in edges if costs[edge[-1]] < _NEVER)
                for edges in rules.byte_edges
            ],
            rule_edges=[
                tuple(
                    (rule, target)
                    for rule, target in edges
                    if costs[target] < _NEVER and of_rule[rule] < _NEVER
                )
                for edges in rules.rule_edges
            ],
            token_edges={
                node: tuple(edge for edge in edges if costs[edge[-1]] < _NEVER)
                for node, edges in rules.token_edges.items()
            },
            distance=[cost % _CHARACTER if cost < _NEVER else UNLIMITED for cost in costs],
        )

    def _to_end(self, node: int, behind: int, tokens: int, characters: int) -> int:
        """What the cheapest way from an item to the end of text costs; `_NEVER` without one."""
        cost = self._costs[node]
        begun, length = divmod(cost, _CHARACTER)
        if length > tokens or begun > characters:
            return _NEVER
        return cost + self._to_end_behind(behind, _less(tokens, length), _less(characters, begun))

    def _to_end_behind(self, behind: int, tokens: int, characters: int) -> int:
        """The same behind a rule (Dijkstra 1959); what it finds on the way is kept."""
        first = (behind, tokens, characters)
        if first in self._rest:
            return self._rest[first]
        queue: list[tuple[int, tuple, tuple]] = [(0, first, ())]
        came_from: dict[tuple, tuple[int, tuple]] = {}
        while queue:
            cost, place, before = heapq.heappop(queue)
            if place in came_from:
                continue
            came_from[place] = cost, before
            if not place:  # the end of text, by way of `before`
                while before:
                    so_far, earlier = came_from[before]
                    self._rest[before] = cost - so_far
                    before = earlier
                return self._rest[first]
            known = 0 if place[0] == END_OF_TEXT else self._rest.get(place)
            if known is not None:
                heapq.heappush(queue, (cost + known, (), place))
                continue
            behind, tokens, characters = place
            for node, outer, more_tokens, more_characters in self._waiting[behind]:
                step = self._costs[node]
                begun, length = divmod(step, _CHARACTER)
                left = _more(tokens, more_tokens), _more(characters, more_characters)
                if length <= left[0] and begun <= left[1]:
                    then = (outer, _less(left[0], length), _less(left[1], begun))
                    heapq.heappush(queue, (cost + step, then, place))
        self._rest.update(dict.fromkeys(came_from, _NEVER))
        return _NEVER

    # --- steps ------------------------------------------------------------------------------------

    def _byte_ways(self, item: CountedItem) -> Iterator[tuple[int, int, int, int]]:
        node, behind, _, characters = item
        for low, high, target in self._rules.byte_edges[node]:
            for first, last, begun in split_at_characters(low, high):
                if self._may_read(target, behind, characters, begun):
                    yield first, last, target, begun

    def _may_read(self, target: int, behind: int, characters: int, begun: int) -> bool:
        """Whether there are so many characters left, and behind them enough to end in."""
        return characters == UNLIMITED or (
            begun <= characters
            and self._to_end(target, behind, UNLIMITED, characters - begun) < _NEVER
        )

    def _unfold(self, state: int, byte: int) -> int:
        if state in self._members:
            return super()._unfold(state, byte)
        taken = state in self._between_tokens
        begun = byte & 0xC0 != 0x80
        return self._state_of_items(
            (target, behind, _less(tokens, taken), _less(characters, begun))
            for node, behind, tokens, characters in self._items[state]
            for low, high, target in self._rules.byte_edges[node]
            if low <= byte <= high and self._may_read(target, behind, characters, begun)
        )

    def _unfold_token(self, state: int, token_class: int) -> int:
        if state in self._members:
            return super()._unfold_token(state, token_class)
        taken = state in self._between_tokens
        read_by = self.token_classes.read_by[token_class]
        length = self.token_classes.characters[token_class]
        if length is None:
            length = _TOO_MANY
        return self._state_of_items(
            (target, behind, _less(tokens, taken), _less(characters, length))
            for node, behind, tokens, characters in self._items[state]
            for index, target in self._rules.token_edges.get(node, ())
            if index in read_by and self._may_read(target, behind, characters, length)
        )

    def _state_of_items(self, items: Iterator[CountedItem]) -> int:
        kernel = frozenset(items)
        return self._state_of(kernel) if kernel else DEAD

    def _end_token(self, state: int) -> int:
        if state in self._members:
            return self.union(self.end_token(member) for member in self._members[state])
        items = frozenset(
            item for item in self._items[state] if item[2] > 0 and self._to_end(*item) < _NEVER
        )
        accepting = self._accepting[state]
        if not items and not accepting:
            return DEAD
        future = (accepting, items, True)
        between = self._by_future.get(future)
        if between is None:
            between = self._by_future[future] = self._add_state(items, accepting)
            self._between_tokens.add(between)
        return between

    def _least_cost(self, items: Iterable[CountedItem]) -> int:
        return min(self._to_end(*item) for item in items)

    def _shortest_of(self, items: frozenset[CountedItem]) -> int:
        return self._least_cost(items) % _CHARACTER

    def spells_by_byte(self, state: int) -> bool:
        """Where tokens are counted: to spend fewer than there are bytes opens shorter ways.

        These could take more tokens than the one that was begun, which would no more end in time.
        """
        return any(item[2] < UNLIMITED for item in self._items[state])

    def shortest_completion(self, state: int) -> bytes:
        """As of `Automaton`; each byte is taken as a token."""
        completion = bytearray()
        state = self.end_token(state)
        while not self.accepting(state):
            byte = self.first_symbol(state)
            if byte < 0:
                raise LookupError("a token stands on the way, which is no string of bytes")
            completion.append(byte)
            state = self.end_token(self.step(state, byte))
        return bytes(completion)

    def _minds_tokens(self, item: CountedItem) -> bool:
        return item[0] in self._rules.token_edges or item[2] < UNLIMITED

    def _choose_first_symbol(self, state: int) -> int:
        least = self._least_cost(self._items[state])
        best: int | None = None
        sets: list[int] = []
        for item in self._items[state]:
            node, behind, tokens, characters = item
            left = _less(tokens, 1)
            for low, high, target in self._rules.byte_edges[node]:
                for first, last, begun in split_at_characters(low, high):
                    if begun > characters or least != self._cost(begun) + self._to_end(
                        target, behind, left, _less(characters, begun)
                    ):
                        continue
                    byte = min(range(first, last + 1), key=RANK.__getitem__)
                    if best is None or RANK[byte] < RANK[best]:
                        best = byte
            for index, target in self._rules.token_edges.get(node, ()):
                begun = self._set_characters[index]
                if begun <= characters and least == self._cost(begun) + self._to_end(
                    target, behind, left, _less(characters, begun)
                ):
                    sets.append(index)
        return best if best is not None else -1 - min(sets)

    # --- prediction and completion ----------------------------------------------------------------

    def _close(self, kernel: frozenset[CountedItem]) -> tuple[frozenset[CountedItem], bool]:
        """As of `Automaton`; what is predicted is a rule with what it may read.

        Its provisional continuation is -1 - its place among those that are predicted here.
        """
        rules = self._rules
        items = set(kernel)
        pending = list(kernel)
        places: dict[CountedItem, int] = {}
        waiting: list[set[Waiting]] = []
        accepting = False
        while pending:
            node, behind, tokens, characters = pending.pop()
            new: list[CountedItem] = []
            for rule, target in rules.rule_edges[node]:
                if self._is_tail[target] and not rules.has_budget(rule):
                    new.append((rules.start[rule], behind, tokens, characters))
                    continue
                own_tokens, own_characters = self._own_limits(rule)
                inner = min(own_tokens, tokens), min(own_characters, characters)
                place = places.setdefault((rule, *inner), len(places))
                if place == len(waiting):
                    waiting.append(set())
                gaps = _difference(tokens, inner[0]), _difference(characters, inner[1])
                waiting[place].add((target, behind, *gaps))
                new.append((rules.start[rule], -1 - place, *inner))
                if self._nullable[rule]:
                    new.append((target, behind, tokens, characters))
            if rules.final[node] and behind >= 0:
                accepting = accepting or behind == END_OF_TEXT
                new.extend(
                    (after, outer, _more(tokens, more_tokens), _more(characters, more_characters))
                    for after, outer, more_tokens, more_characters in self._waiting[behind]
                )
            for item in new:
                if item not in items:
                    items.add(item)
                    pending.append(item)
        resolved = self._resolve_places([rule for rule, *_ in places], waiting)
        settled = (
            (node, behind if behind >= 0 else resolved[-1 - behind], *left)
            for node, behind, *left in items
        )
        return frozenset(item for item in settled if self._can_read(item)), accepting

    def _can_read(self, item: CountedItem) -> bool:
        node, behind, _, characters = item
        return any(self._byte_ways(item)) or any(
            self._may_read(target, behind, characters, self._set_characters[index])
            for index, target in self._rules.token_edges.get(node, ())
        )

    def _resolve_places(self, rule_at: list[int], waiting: list[set[Waiting]]) -> dict[int, int]:
        """As `Automaton._resolve`, for rules by their place.

        Who waits in a loop may read as much as who it waits for, else it would be none: so in a
        loop the rules alone name what is predicted.
        """
        resolved: dict[int, int] = {}
        for component in strong_components(
            {
                place: [-1 - behind for _, behind, *_ in items if behind < 0]
                for place, items in enumerate(waiting)
            }
        ):
            inside = set(component)

            def settle(item: Waiting, inside: set[int] = inside) -> Waiting:
                node, behind, *gaps = item
                if behind >= 0:
                    return item
                place = -1 - behind
                return (node, -1 - rule_at[place] if place in inside else resolved[place], *gaps)

            equations = {
                rule_at[place]: frozenset(map(settle, waiting[place])) for place in component
            }
            place = component[0]
            if len(component) == 1 and all(item[1] >= 0 for item in equations[rule_at[place]]):
                resolved[place] = self._intern_waiting(equations[rule_at[place]])
                continue
            system = frozenset(equations.items())
            known = (system, rule_at[place]) in self._continuation_ids
            for place in component:
                resolved[place] = self._intern_waiting((system, rule_at[place]))
            if not known:
                by_rule = {rule_at[place]: resolved[place] for place in component}
                for rule, items in equations.items():
                    self._waiting[by_rule[rule]] = tuple(
                        (node, behind if behind >= 0 else by_rule[-1 - behind], *gaps)
                        for node, behind, *gaps in items
                    )
        return resolved

    def _intern_waiting(self, key: frozenset | tuple) -> int:
        """The id of a continuation; one that is part of a loop is filled afterwards."""
        found = self._continuation_ids.get(key)
        if found is None:
            found = self._continuation_ids[key] = len(self._waiting)
            self._waiting.append(tuple(key) if isinstance(key, frozenset) else ())
        return found


def _less(left: int, taken: int) -> int:
    return left if left == UNLIMITED else left - taken


def _more(left: int, difference: int) -> int:
    return min(left + difference, UNLIMITED)


def _difference(outer: int, inner: int) -> int:
    return UNLIMITED if outer == UNLIMITED else outer - inner


def _lengths_by_set(classes: TokenClasses, sets: int) -> list[set[int | None]]:
    lengths: list[set[int | None]] = [set() for _ in range(sets)]
    for read_by, length in zip(classes.read_by, classes.characters, strict=True):
        for index in read_by:
            lengths[index].add(length)
    return lengths
