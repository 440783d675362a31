"""Training that goes on after a restart: the position in the data, checkpoints, and the loops that use both."""
