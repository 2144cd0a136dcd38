"""Who says whether a text is well-formed, when the shipped grammars are measured."""
