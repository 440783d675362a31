"""Comparisons of lowtide with what really happens, and with its peers; each writes a table."""
