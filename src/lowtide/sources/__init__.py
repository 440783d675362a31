"""Readers of files that other programs wrote; none of them needs TensorFlow."""
