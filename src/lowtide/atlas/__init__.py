"""Graphs of any size as columns on disk: index, search, comparison, selection, drawing and export.

Imports `cache`, `program`, `sources`, `tide` and `progress`. `index/` builds the columns, `atlas.py` reads them,
`screens/` folds them into what a page shows, `cuts/` selects parts of a graph, `drawing/` and `exports/` write them,
and `subgraph.py` is the Python interface `lt.graph`. Each of these imports only those before it.
"""
