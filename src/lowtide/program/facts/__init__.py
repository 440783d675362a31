"""What each op does with memory: one file per family of ops, each fact checked by running that op alone.

Knows ops, shapes and the machine, and imports `program` only. `catalog` loads every family.
"""
