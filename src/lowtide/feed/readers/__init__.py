"""Readers of samples by index: arrays, TFRecord files, tables and image files.

This package knows file formats, the blocks that have to be read together, and the memory that rows are read into. It
may import errors, units, sources and the progress bar of feed; it knows nothing of epochs, orders or tf.data.
"""
