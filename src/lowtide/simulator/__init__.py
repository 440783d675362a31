"""How the memory of one step changes while it runs: the executor's order, replayed in the allocator.

Holds the workload, executor, control flow, buffer references, BFC allocator, arena and op costs. Imports `program`.
"""
