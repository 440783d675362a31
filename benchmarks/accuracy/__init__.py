"""How near a predicted peak is to the one TensorFlow's allocator records."""
