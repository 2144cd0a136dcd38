"""Lookaheads side by side, each on the same canvases: ours, and those of others."""
