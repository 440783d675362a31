"""What the stages of a tf.data pipeline hold: predicted before it runs, or inspected while it runs."""
