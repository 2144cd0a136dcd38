"""The grammar room: from xgrammar's normal form to parser states that can be compared.

`normal_form` reads what xgrammar prints into byte automata, `automaton` runs an Earley parser over
them whose item sets are interned. This room knows no model, no tokenizer and no engine.
"""
