"""Samples read by number from files: arrays, records, tables and images."""
