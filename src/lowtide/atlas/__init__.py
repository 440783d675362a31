"""Graphs of any size: as columns on disk, ordered by name scope, with search, walks and comparison.

Imports `program`, `sources` and `tide`. `index/` builds the columns, `screens/` folds them into what a page shows,
`cuts/` selects parts of a graph and `exports/` writes them.
"""
