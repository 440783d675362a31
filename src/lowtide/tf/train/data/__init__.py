"""Training data that can continue at a position (epoch, step), one file per kind."""
