"""Training that reaches its end: the run's directory, its checkpoints as files, and the supervisor of its attempts."""
