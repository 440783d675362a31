"""Plans of TensorFlow steps: `lt.plan`, `lt.function` and `lt.fit_in`.

Flattens a traced step, lets `planning` search for a rewrite, applies it and traces the result again. Imports
`planning`, `tf/trace` and `tf/microbatch`; to read the allocator of the process, also `tf/record/device` and
`tf/references`.
"""
