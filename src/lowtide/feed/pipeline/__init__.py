"""tf.data pipelines over samples: order, read-ahead, sizing and restart."""
