"""A bound on the compiled grammars that SGLang keeps.

It keeps every grammar that it has ever compiled (``BaseGrammarBackend.cache``). Ours are larger,
having their rules beside the matcher, and a server that is sent schemas as they come would grow
for as long as it runs. xgrammar's compiler below it keeps grammars as well, and parts of them
beyond the bound that it is given (0.2.7: some 15 KiB a grammar); so its cache is turned off.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

KEPT_GRAMMARS = 1024


class RecentGrammars(OrderedDict):
    """Grammars by key, without those that were asked for longest ago.

    One that is gone is compiled again when it is asked for again; requests under way have
    their own hold on theirs.
    """

    def __init__(self, limit: int = KEPT_GRAMMARS) -> None:
        super().__init__()
        self._limit = limit

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self.move_to_end(key)
        return super().get(key, default)

    def __setitem__(self, key: Any, grammar: Any) -> None:
        super().__setitem__(key, grammar)
        self.move_to_end(key)
        while len(self) > self._limit:
            self.popitem(last=False)
