"""Data larger than memory: what datasets hold, and how fast they are, beside the ways that people use."""
