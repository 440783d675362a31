"""Recorded steps: the allocator's events while a step runs, for `lt.measure` and inside a script under `lowtide run`.

This folder knows TensorFlow's profiler, the addresses of variables, and how to inspect the function of a recorded step.
It may import `tf.hooks`, `tf.references`, `tf.trace` and `tf.plan`, and the rooms that `tf` may import.
"""
