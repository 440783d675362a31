"""Readers of files that other programs wrote. None of them needs TensorFlow.

Imports `errors`, `units`, `cache` and `program`. `protobuf/` reads and writes messages, `graphs/` finds graphs in
files, `profiles/` reads what TensorFlow's profiler and XLA recorded.
"""
