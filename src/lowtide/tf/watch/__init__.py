"""`lt.Watch` and `lt.release`: memory that grows from step to step, its cause, and how to free it.

This folder knows how programs leak: retracing, kept tensors, open sessions, growing graphs, discarded models. It may
import `tf.hooks`, `tf.memory_meter`, `tf.references` and `tf.trace.source_lines`, and the rooms that `tf` may import.
"""
