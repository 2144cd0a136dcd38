"""Makes ``demo/checkpoint`` from nothing: tokenizer, model, training and evaluation.

The plugin itself never imports this package. Run::

    python -m lave_plugin.demo.training.train --out DIR
    python -m lave_plugin.demo.training.evaluate DIR
    python -m lave_plugin.demo.training.evaluate DIR --constrained
"""
