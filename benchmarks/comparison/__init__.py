"""The grammar room beside xgrammar's matcher: what `benchmarks/agreement.py` runs, and its test."""
