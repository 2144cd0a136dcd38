"""Adapters: each knows everything about its engine and nothing about parsing."""
