"""A tiny dLLM that ships with the plugin, and the data that it was trained on.

``records`` writes the data, ``training`` turns it into ``checkpoint``. Nothing here
knows a grammar engine or a serving engine.
"""
