"""Screens: a scope or a fold as a bounded number of items and bundled edges. Imports `index` and the atlas itself."""
