"""xgrammar's compiler where only what it prints is wanted."""

from functools import cache

import xgrammar


@cache
def text_compiler() -> xgrammar.GrammarCompiler:
    """A compiler for grammars that name no tokens, whose masks nobody asks for.

    What is printed does not depend on the vocabulary, and compiling for one token is fast.
    """
    vocabulary = xgrammar.TokenizerInfo([b"a", b""], vocab_size=2, stop_token_ids=[1])
    return xgrammar.GrammarCompiler(vocabulary, max_threads=1, cache_enabled=False)
