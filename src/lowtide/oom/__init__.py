"""Why memory ran out: read from a log or a recording, with the cause and what to do about it.

Imports `simulator`, `tide` and `sources`; does not need TensorFlow.
"""
