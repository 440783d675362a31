"""Screens: a scope or a fold as a bounded number of items and bundled edges that a page can draw."""
