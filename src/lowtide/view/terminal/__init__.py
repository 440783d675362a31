"""Reports in the terminal and as markdown."""
