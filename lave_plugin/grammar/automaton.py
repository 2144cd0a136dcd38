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
"""

from lave_plugin.grammar.normal_form import UNREACHABLE, RuleAutomata

DEAD = -1

END_OF_TEXT = 0
"""The continuation of the root rule: nothing follows."""

Item = tuple[int, int]

# Which byte a shortest completion takes where several will do: something a human would write and
# any tokenizer knows. The choice must depend on the state alone.
_PREFERRED = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANK = {byte: rank for rank, byte in enumerate(_PREFERRED)}
_RANK.update({byte: 100 + byte for byte in range(0x20, 0x7F) if byte not in _RANK})
_RANK.update({byte: 300 + byte for byte in range(256) if byte not in _RANK})


class Automaton:
    """States of one grammar, unfolded lazily; equal id means equal future.

    Every state that is not DEAD can be completed to a sentence.
    """

    def __init__(self, rules: RuleAutomata) -> None:
        self._rules = rules
        self._nullable = [rules.distance[start] == 0 for start in rules.start]
        # A node behind which its rule has nothing left to read.
        self._is_tail = [
            final and not byte_edges and not rule_edges
            for final, byte_edges, rule_edges in zip(
                rules.final, rules.byte_edges, rules.rule_edges, strict=True
            )
        ]
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

        # States: the items from which a byte can be read, and what is known about each state.
        self._items: list[tuple[Item, ...]] = []
        self._accepting: list[bool] = []
        self._shortest: list[int] = []
        self._first_byte: list[int | None] = []
        self._transitions: list[dict[int, int]] = []
        self._by_kernel: dict[frozenset[Item], int] = {}
        self._by_future: dict[tuple[bool, frozenset[Item]], int] = {}

        root = self._rules.start[self._rules.root]
        self.start = self._state_of(frozenset([(root, END_OF_TEXT)]))

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

    def accepting(self, state: int) -> bool:
        """Whether the text so far is a sentence."""
        return state != DEAD and self._accepting[state]

    def can_continue(self, state: int) -> bool:
        """Whether some byte may follow; if not, only the end of text is left."""
        return state != DEAD and bool(self._items[state])

    def shortest_length(self, state: int) -> int:
        """Bytes to the nearest end of a sentence, exact."""
        if state == DEAD:
            raise ValueError("a dead state has no completion")
        return self._shortest[state]

    def shortest_completion(self, state: int) -> bytes:
        """A shortest string that completes the sentence.

        Which one is a function of the state: the completion of the state behind its first byte is
        the rest of it.
        """
        completion = bytearray()
        for _ in range(self.shortest_length(state)):
            byte = self._first_byte[state]
            if byte is None:
                byte = self._first_byte[state] = self._choose_first_byte(state)
            completion.append(byte)
            state = self.step(state, byte)
        return bytes(completion)

    def allowed_bytes(self, state: int) -> bytes:
        """All bytes that may follow, in ascending order."""
        if state == DEAD:
            return b""
        allowed: set[int] = set()
        for node, _ in self._items[state]:
            for low, high, _ in self._rules.byte_edges[node]:
                allowed.update(range(low, high + 1))
        return bytes(sorted(allowed))

    def forced_bytes(self, state: int, limit: int = 64) -> bytes:
        """The longest string, up to `limit` bytes, that is the only way on.

        It stops where the sentence may end, since there the end of text is another way.
        """
        forced = bytearray()
        while len(forced) < limit and not self.accepting(state):
            allowed = self.allowed_bytes(state)
            if len(allowed) != 1:
                break
            forced += allowed
            state = self.step(state, allowed[0])
        return bytes(forced)

    def _unfold(self, state: int, byte: int) -> int:
        """Scan one byte: move every item over it, then predict and complete."""
        byte_edges = self._rules.byte_edges
        kernel = frozenset(
            (target, continuation)
            for node, continuation in self._items[state]
            for low, high, target in byte_edges[node]
            if low <= byte <= high
        )
        return self._state_of(kernel) if kernel else DEAD

    def _state_of(self, kernel: frozenset[Item]) -> int:
        state = self._by_kernel.get(kernel)
        if state is None:
            items, accepting = self._close(kernel)
            future = (accepting, items)
            state = self._by_future.get(future)
            if state is None:
                state = self._by_future[future] = self._add_state(items, accepting)
            self._by_kernel[kernel] = state
        return state

    def _add_state(self, items: frozenset[Item], accepting: bool) -> int:
        shortest = 0
        if not accepting:
            distance = self._rules.distance
            remaining = self._remaining
            shortest = min(distance[node] + remaining[continuation] for node, continuation in items)
        self._items.append(tuple(sorted(items)))
        self._accepting.append(accepting)
        self._shortest.append(shortest)
        self._first_byte.append(None)
        self._transitions.append({})
        return len(self._items) - 1

    def _close(self, kernel: frozenset[Item]) -> tuple[frozenset[Item], bool]:
        """Earley's predictor and completer, until nothing new comes.

        Returns the items from which a byte can be read, and whether the text may end here.

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
                if self._is_tail[target]:
                    new.append((rules.start[rule], continuation))
                    continue
                waiting.setdefault(rule, set()).add((target, continuation))
                new.append((rules.start[rule], -1 - rule))
                if self._nullable[rule]:
                    new.append((target, continuation))
            if rules.final[node] and continuation >= 0:
                if continuation == END_OF_TEXT:
                    accepting = True
                new.extend(self._waiting[continuation])
            for item in new:
                if item not in items:
                    items.add(item)
                    pending.append(item)
        resolved = self._resolve(waiting)
        byte_edges = rules.byte_edges
        return frozenset(
            (node, continuation if continuation >= 0 else resolved[-1 - continuation])
            for node, continuation in items
            if byte_edges[node]
        ), accepting

    def _resolve(self, waiting: dict[int, set[Item]]) -> dict[int, int]:
        """Intern the continuations of the rules predicted at one position.

        The continuation of a rule depends on that of another if one of its waiting items stands
        inside the other's body. Rules that don't depend on themselves are interned by what waits,
        once those they depend on are. Rules in a loop are interned together: the system of their
        equations is the key, with the names of the rules inside it.
        """
        resolved: dict[int, int] = {}
        for component in _components(
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

    def _choose_first_byte(self, state: int) -> int:
        """The preferred byte among those that lie on a shortest completion."""
        distance, remaining = self._rules.distance, self._remaining
        after = self._shortest[state] - 1
        best = None
        for node, continuation in self._items[state]:
            for low, high, target in self._rules.byte_edges[node]:
                if distance[target] + remaining[continuation] == after:
                    byte = min(range(low, high + 1), key=_RANK.__getitem__)
                    if best is None or _RANK[byte] < _RANK[best]:
                        best = byte
        return best


def _components(depends_on: dict[int, list[int]]) -> list[list[int]]:
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
