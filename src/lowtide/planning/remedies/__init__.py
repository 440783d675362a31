"""Remedies of a step's memory: what holds its peak, and what each change would save. Needs no TensorFlow.

`remedy` has the types, and `at_peak` reads a tide. `tf/remedies` tries the changes on a step.
"""
