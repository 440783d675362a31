"""Functions that are traced again and again, or that never become a graph."""
