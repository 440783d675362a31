"""The Tide: the memory of one step over time, predicted or recorded, with its storage, explanation and difference.

Imports `program` and `simulator`.
"""
