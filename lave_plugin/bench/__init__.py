"""Benchmarks that anyone can repeat: what ``lave bench`` runs.

``serve`` and ``paper`` measure a server from outside, over HTTP, and know nothing of the plugin's
states; ``verify``, ``replay`` and ``in_process`` measure the states themselves, without a server.
Each writes one JSON file (``results``) from which the tables, the plots and
``benchmarks/REPORT.md`` are made.
"""
