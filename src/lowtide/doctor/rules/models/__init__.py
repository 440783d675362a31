"""Models, sessions and settings of the process."""
