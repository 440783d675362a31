"""Graphs of any size: as columns on disk, ordered by name scope, folded into screens."""
