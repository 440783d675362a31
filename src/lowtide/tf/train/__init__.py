"""Training that continues where it stopped, in the process that trains: what a checkpoint contains."""
