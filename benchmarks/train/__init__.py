"""Training that reaches its end: faults, batches that are too large, and what it costs; see README.md."""
