"""`from_tensor_slices` and `from_tensors` copy a whole array, and the pipeline copies it again while it runs.

TensorFlow copies a NumPy array when the dataset is made: two more copies, because the constant of the pipeline's graph
is one of its own. The iterator holds another one. With the array itself four copies are in memory at the peak: 4 GiB
for an array of 1 GiB. The same happens with a memory map: all of it is read.

`lt.feed.arrays` reads batches from `.npy`, `.npz`, HDF5 and Zarr files, or from an array in memory, and stays within a
budget. With TensorFlow alone, open the file with `np.load(path, mmap_mode="r")` and yield its rows from a generator
given to `tf.data.Dataset.from_generator`.

Arrays are reported when they are read from a file as a whole, or when their code shows that they have 256 MiB or more,
which is 1 GiB at the peak.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lowtide.doctor.code.module import Module
from lowtide.doctor.code.sizes import ArraySize, describe, find_size
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule

_FUNCTIONS = ("tensorflow.data.Dataset.from_tensor_slices", "tensorflow.data.Dataset.from_tensors")
_LEAST_BYTES = 256 << 20
_COPIES = 4


def _check(module: Module) -> Iterator[Problem]:
    for call in module.calls(*_FUNCTIONS):
        parts = list(_parts(module.argument(call, 0, "tensors")))
        sizes = [(part, find_size(module, part)) for part in parts]
        large = [(part, size) for part, size in sizes if size is not None and size.is_at_least(_LEAST_BYTES)]
        if not large:
            continue
        part, size = max(large, key=lambda each: each[1].bytes or 0)
        function = (module.name(call.func) or "").split(".")[-1]
        yield Problem(
            call,
            f"{function} copies all of {module.short_text(part)}: {_COPIES} copies while the dataset is read,"
            f" {size.times(_COPIES)}with {describe(module, size)}",
            _advice(module, size),
        )


def _parts(node: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Tuple, ast.List)):
        for each in node.elts:
            yield from _parts(each)
    elif isinstance(node, ast.Dict):
        for each in node.values:
            yield from _parts(each)
    elif node is not None:
        yield node


def _advice(module: Module, size: ArraySize) -> str:
    if size.loader != "numpy.load" or not isinstance(size.origin, ast.Call) or not size.origin.args:
        return "use lt.feed.arrays(x, y, batch_size=..., budget=...), which copies only the batches"
    path = module.short_text(size.origin.args[0])
    return (
        f'use lt.feed.arrays({path}, batch_size=..., budget=...), or read rows of np.load({path}, mmap_mode="r")'
        " in a generator for tf.data.Dataset.from_generator"
    )


RULE = Rule("LT101", "whole array in from_tensor_slices", _check, __doc__)
