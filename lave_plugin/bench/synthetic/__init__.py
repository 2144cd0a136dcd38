"""What benchmarks are made of where there is no data and no model: vocabularies, texts, marginals."""
