"""What each op does with memory, one file per family of ops, each fact checked by a probe of that op alone.

Knows ops, shapes and the machine; imports `program` and nothing above it. `catalog` loads every family.
"""
