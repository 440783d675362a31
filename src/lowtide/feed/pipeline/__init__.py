"""tf.data pipelines over samples that are read by index: order, sizes within a budget, errors and restarts.

This package knows TensorFlow and Keras. It may import errors, units, tf and the readers of feed; not forecast.
"""
