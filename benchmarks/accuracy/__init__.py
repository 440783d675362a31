"""Accuracy: predicted peaks compared with the peaks that TensorFlow's allocator records."""
