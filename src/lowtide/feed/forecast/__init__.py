"""The memory of the stages of any tf.data pipeline: predicted before it runs, or read from a running one.

This package knows TensorFlow's dataset classes and what their kernels buffer. It may import errors, units, program,
planning, tf and the error messages of `pipeline`; nothing else of feed. `stage`, `stage_memory`, `advice`, `forecast`
and `remedies` do not import TensorFlow.
"""
