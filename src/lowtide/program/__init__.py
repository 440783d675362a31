"""What a program is: its nodes and tensors as columns, its batch axis, and the constants that fold away.

Imports `errors` and `units` only. `facts/` states what each op's kernel does with memory.
"""
