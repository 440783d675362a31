"""Simulates what a step does to TensorFlow's allocator, without TensorFlow.

A `workload` resolves a graph by the op facts. The `executor` runs its nodes with `control_flow` and `kernel_memory`,
and emits a stream of allocations and frees. `bfc` replays the stream, and `simulate` repeats this for several steps and
processes. Imports `errors`, `units` and `program`.
"""
