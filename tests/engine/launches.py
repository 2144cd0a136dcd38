"""How most tests start a server."""

BLOCK = 16
LAVE = {
    "algorithm": "LowConfidence",
    "algorithm_config": {"block_size": BLOCK, "threshold": 0.7},
    "constrained_decoding": "lave",
}
