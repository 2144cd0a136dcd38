"""What this room says when it can't serve a grammar."""


class UnsupportedGrammar(ValueError):
    """The grammar can't be modelled; the message is a sentence that says what and what to do."""
