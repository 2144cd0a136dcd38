"""What benchmarks use where there are no data and no model: vocabularies, texts, marginals."""
