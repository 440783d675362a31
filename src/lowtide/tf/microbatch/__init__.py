"""A Keras training step over micro-batches, and the check that its result is that of the whole batch.

Imports `tf.trace.keras_models` and `tide.layers`. `tf.plan` decides when to split a batch.
"""
