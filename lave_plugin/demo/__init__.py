"""A tiny dLLM that ships with the plugin, and the data that it was trained on.

``records`` and ``tasks`` write the data, ``training`` turns it into ``checkpoint``. Nothing here
knows a serving engine, and only judges and the evaluation know a grammar engine.
"""
