"""Recorded allocations (`.xplane.pb`) and the modules that XLA compiled."""
