"""Why a schema isn't served."""

from lave_plugin.grammar.errors import UnsupportedGrammar


class UnsupportedSchema(UnsupportedGrammar):
    """A keyword can't be enforced where it stands; the message names it and its path."""

    def __init__(self, path: str, keyword: str, why: str) -> None:
        super().__init__(f"JSON schema at {path}: {keyword} {why}.")
        self.keyword = keyword
