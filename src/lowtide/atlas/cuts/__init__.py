"""Cuts: selections of nodes, contracted paths, collapsed scopes, counts. Imports `index` and the atlas itself."""
