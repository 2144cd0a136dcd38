"""Ways to read the lattice: which proposals of the model are committed in a step."""
