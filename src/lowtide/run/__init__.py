"""A script's run: its launch, the folder it is recorded in, and what came of it; without TensorFlow."""
