"""Exports of a cut: files for other programs, and graphs of other libraries. Imports `index`, `cuts` and `drawing`."""
