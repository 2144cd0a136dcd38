"""What is measured on the shipped model without an engine, since no server tells it.

A server tells its answers; it tells no probabilities, and its algorithms have no number of steps.
"""
