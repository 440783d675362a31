"""What the lines of a TensorFlow log look like when memory runs out, from version 0.8 to 2.21.

Patterns are searched for anywhere in a line: the prefix of a line is the business of TensorFlow's version, of the log
collector and of the terminal.
"""

from __future__ import annotations

import re

from lowtide.program.dtypes import DTYPES
from lowtide.units import parse_bytes

# Of bounded length, so that a damaged log cannot make a number that is none.
_NUMBER = rb"\d{1,18}(?:\.\d{1,6})?"
_BYTES = _NUMBER + rb" ?[KMGTP]?i?B"
_AMOUNT = rb"(" + _NUMBER + rb"(?: ?[KMGTP]?i?B|[KMGT])?)"
_SHAPE = rb"(?:\d{1,18}(?:, ?\d{1,18}){0,15},?)?"

# A line without any of these says nothing about memory; testing for them is all that most lines of a log cost.
WORDS = (b"llocat", b" of size ", b"emory space", b"Dst tensor", b"at node ", b"Sum Total")

FAILED = re.compile(
    rb"(?:Allocator \((?P<allocator>[^)]*)\) r|R)an out of memory trying to allocate (?P<amount>" + _BYTES + rb")"
    rb"(?: \(rounded to (?P<rounded>\d{1,18})\))?(?:\s*requested by op (?P<op>[^\s\\]*))?"
)
NOT_A_FAILURE = b"not a failure"

DUMP_OF = re.compile(rb"BFCAllocator dump for (\S+)")
BIN = re.compile(rb"Bin \((\d+)\):(?:\s|\\t)*Total Chunks")
BLOCK = re.compile(rb"(InUse|Free|Chunk) +at (?:0x)?([0-9a-f]{1,15})(?: next \d+)? of size (\d{1,18})")
REGION = re.compile(rb"Next region of size (\d{1,18})")
SUMMARY = re.compile(rb"(?<!\d)(\d{1,9}) Chunks of size (\d{1,18}) totalling")
SUM = re.compile(rb"Sum Total of in-use chunks: " + _AMOUNT)
POOL = re.compile(rb"memory_limit_: " + _AMOUNT + rb" available (?:bytes|size): " + _AMOUNT)
STATISTIC = re.compile(rb"(?<![A-Za-z])(Limit|InUse|MaxInUse): +" + _AMOUNT)

TENSOR = re.compile(
    rb"OOM when allocating (?:temporary )?tensor (?:with|of) shape ?\[(?P<shape>" + _SHAPE + rb")\]"
    rb"(?: and type (?P<dtype>\w+))?(?: on (?P<device>/[^\s\"'\\]+))?(?: by allocator (?P<allocator>[^\s\"'\\]+))?",
    re.IGNORECASE,
)
COMPILED = re.compile(
    rb"Out of memory (?:while trying to allocate|allocating) (?:(?P<bytes>\d{1,18}) bytes|(?P<amount>" + _BYTES + rb"))"
    rb"|Failed to allocate request for \S+ \((?P<exact>\d{1,18})B\)"
)
# What kernels made by MLIR say; the shape is not told.
UNNAMED = re.compile(rb"(?:RESOURCE_EXHAUSTED|ResourceExhausted|Message).*?[: ]failed to allocate memory")
CUDA = re.compile(rb"(?:(?P<allocator>\S{1,80}) )?cuMemAlloc(?:Async)? failed to allocate (?P<amount>\d{1,18})")
CUDA_FREE = re.compile(rb"Free memory/Total memory: (\d{1,18})/(\d{1,18})")
HISTOGRAM_BEGINS = b"Histogram of current allocation"
HISTOGRAM = re.compile(rb"(?:^|\] )(\d{1,18}), (\d{1,9})\s*$")
REFUSED = re.compile(rb"failed to allocate \S+ \((\d{1,18}) bytes\) from device: CUDA_ERROR_OUT_OF_MEMORY")
COPY = re.compile(rb"(?:in order to run (?P<op>\w+): )?Dst tensor is not initialized")
TPU = re.compile(rb"out of memory in memory space (\w+)\. Used " + _AMOUNT + rb" of " + _AMOUNT)
NUMPY = re.compile(
    rb"Unable to allocate (?P<amount>" + _BYTES + rb") for an array with shape \((?P<shape>" + _SHAPE + rb")\)"
    rb" and data type (?P<dtype>\w+)"
)

# A traced function is an op too; those are called __inference_... and say nothing about what asked.
EAGER_OP = re.compile(rb"\[Op:(?!__)(\w+)\]")
# What inlining puts before the path of a node.
CALLS = re.compile(rb"^(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+")
NODE = re.compile(
    rb"\[\[(?:(?:\{\{function_node [^}]*\}\})?\{\{node (?P<braced>[^}]+)\}\}|[Nn]ode:? (?P<plain>[^\s=]+))"
    rb"(?: \(defined at (?P<file>[^\s()]+?):(?P<line>\d{1,9})\))?"
)
DEVICE = re.compile(rb"_device=\"(/job:[^\"]+)\"")
DETECTED = re.compile(rb"(?:Detected at node|Caused by op) u?'?([^\s']+)'?,? defined at")
FRAME = re.compile(rb"File \"([^\"]+)\", line (\d{1,9})")

USAGE_BEGINS = re.compile(rb"Current usage from device: (\S+), allocator: (\S+)")
USAGE = re.compile(rb"(" + _BYTES + rb") from (\S+)")
USAGE_REST = re.compile(rb"Remaining (\d{1,9}) nodes with (" + _BYTES + rb")")

PEAK_BUFFERS_BEGIN = b"Peak buffers:"
PEAK_BUFFER = re.compile(rb"^\s*Size: (" + _BYTES + rb")\s*$")
PEAK_BUFFER_NAME = re.compile(rb"op_name=\"([^\"]+)\"(?:.*source_file=\"([^\"]+)\" source_line=(\d{1,9}))?")
PEAK_BUFFER_LABEL = re.compile(rb"XLA Label: (\S+)")
PEAK_BUFFER_SHAPE = re.compile(rb"(?:Shape|Subshape): (\w+)\[(" + _SHAPE + rb")\]")

# Version 2 gives a hint of version 1: its functions take no RunOptions.
VAIN_HINT = re.compile(rb"add report_tensor_allocations_upon_oom .*Eager mode")

COLOURS = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")

# How error messages call types, where that is not the name in Python.
_DTYPE_NAMES = {"float": "float32", "double": "float64", "half": "float16"}
_XLA_DTYPE_NAMES = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}
_XLA_LETTERS = {"f": "float", "s": "int", "u": "uint"}
_ELEMENT_BYTES = dict(DTYPES.values())


def read_amount(text: bytes) -> int:
    """Return the bytes in "300.00MiB", "12.34G", "0B" or "10925244416"."""
    words = text.decode("ascii")
    unit = words.lstrip("0123456789. ")
    less_than_one = float(words[: len(words) - len(unit)]) < (1 if unit in ("", "B") else 1e-6)
    return 0 if less_than_one else parse_bytes(words)


def read_shape(text: bytes) -> tuple[int, ...]:
    """Return the dimensions in "64,112,112,64"."""
    return tuple(int(size) for size in text.replace(b" ", b"").split(b",") if size)


def read_dtype(text: bytes | None) -> str | None:
    """Return the type's name in Python."""
    if text is None:
        return None
    name = text.decode("ascii", "replace").lower()
    return _DTYPE_NAMES.get(name, name)


def read_xla_dtype(text: bytes) -> str:
    """Return the type's name in Python of XLA's "f32" or "pred"."""
    name = text.decode("ascii", "replace")
    return _XLA_DTYPE_NAMES.get(name) or _XLA_LETTERS.get(name[0], name[0]) + name[1:]


def tensor_bytes(shape: tuple[int, ...], dtype: str | None) -> int | None:
    """Return what a tensor takes, if its type is known."""
    size = _ELEMENT_BYTES.get(dtype or "")
    if size is None:
        return None
    for dimension in shape:
        size *= dimension
    return size


def is_own_source(path: bytes) -> bool:
    """Whether a file of a traceback is the user's, not Python's or a library's."""
    return not any(
        part in path for part in (b"site-packages", b"dist-packages", b"/lib/python", b"\\lib\\", b"<frozen")
    )
