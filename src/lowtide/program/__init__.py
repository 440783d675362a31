"""What a program is: its nodes and tensors as columns, its batch axis, the values of small tensors, constant folding.

`facts/` states what each op's kernel does with memory, for the machine in `machine`. Imports `errors` and `units` only.
"""
