"""TensorFlow's data types by number: their names and the bytes of one element.

The numbers are those of TensorFlow's `types.proto`; they are part of its file format and never change.
"""

from __future__ import annotations

DTYPES: dict[int, tuple[str, int]] = {
    1: ("float32", 4),
    2: ("float64", 8),
    3: ("int32", 4),
    4: ("uint8", 1),
    5: ("int16", 2),
    6: ("int8", 1),
    # A string element is a 24-byte tstring; longer texts live on the heap, outside the allocator.
    7: ("string", 24),
    8: ("complex64", 8),
    9: ("int64", 8),
    10: ("bool", 1),
    11: ("qint8", 1),
    12: ("quint8", 1),
    13: ("qint32", 4),
    14: ("bfloat16", 2),
    15: ("qint16", 2),
    16: ("quint16", 2),
    17: ("uint16", 2),
    18: ("complex128", 16),
    19: ("float16", 2),
    # Handles and variants are C++ objects inside a tensor buffer: their size is that of the object.
    20: ("resource", 160),
    21: ("variant", 64),
    22: ("uint32", 4),
    23: ("uint64", 8),
    24: ("float8_e5m2", 1),
    25: ("float8_e4m3fn", 1),
    26: ("float8_e4m3fnuz", 1),
    27: ("float8_e4m3b11fnuz", 1),
    28: ("float8_e5m2fnuz", 1),
    29: ("int4", 1),
    30: ("uint4", 1),
    31: ("int2", 1),
    32: ("uint2", 1),
}

RESOURCE = 20
VARIANT = 21
STRING = 7


def dtype_name(number: int) -> str:
    return DTYPES.get(number, (f"dtype{number}", 4))[0]


def element_bytes(number: int) -> int:
    return DTYPES.get(number, ("", 4))[1]
