"""Benchmarks that anyone can repeat: what ``lave bench`` runs.

They measure a server from outside, over HTTP, and know nothing of the plugin's states. Each
writes one JSON file (``results``) from which the tables, the plots and ``benchmarks/REPORT.md``
are made.
"""
