"""Cuts: a chosen part of a graph, how it is selected, counted and collapsed."""
