"""LAVE: grammar-constrained decoding for diffusion language models in SGLang.

The rooms, from the outside in (imports run one way)::

    cli, engines -> batch -> session -> strategies -> lattice -> grammar

``grammar`` knows no model, ``strategies`` know no engine, an engine adapter knows
everything about its engine and nothing about parsing.
"""

__version__ = "0.1.0"
