"""Reference answers given once more by a simulated model, block by block as the engine does."""
