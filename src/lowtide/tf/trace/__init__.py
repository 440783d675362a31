"""From a function or a Keras model to the graph that TensorFlow runs, its shapes, and its predicted tide.

Includes the steps that XLA compiles.
"""
