"""A training step over micro-batches, and the proof that its result is that of the whole batch."""
