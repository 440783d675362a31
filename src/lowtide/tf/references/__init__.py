"""Which Python objects hold a tensor, named as in the user's program: a variable, an attribute, a closure.

This folder knows Python's garbage collector and its objects. It may import `tf.trace.source_lines`.
"""
