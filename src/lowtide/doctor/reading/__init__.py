"""Reads files: which ones, what of them is Python, and where that is in their text."""
