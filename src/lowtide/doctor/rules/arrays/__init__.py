"""Whole arrays where batches would do: in constants, in graphs, in lists."""
