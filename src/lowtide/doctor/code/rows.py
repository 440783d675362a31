"""The shapes of arrays and tensors that the code itself states."""

from __future__ import annotations

import ast

from lowtide.doctor.code.module import Module

# Makers whose first argument is the shape, and those whose argument of this name and place is.
_FIRST = (
    "numpy.zeros", "numpy.ones", "numpy.empty", "numpy.random.random", "numpy.random.standard_normal",
    "numpy.random.random_sample", "tensorflow.zeros", "tensorflow.ones", "tensorflow.random.normal",
    "tensorflow.random.uniform", "keras.random.normal", "keras.random.uniform",
)  # fmt: skip
_SIZED = ("numpy.random.normal", "numpy.random.uniform", "numpy.random.randint")
_EACH = ("numpy.random.rand", "numpy.random.randn")


def find_shape(module: Module, made: ast.AST) -> tuple[int, ...] | None:
    """Return the shape of the array or tensor that a call makes; None if the code does not state it."""
    if not isinstance(made, ast.Call):
        return None
    name = module.name(made.func) or ""
    shape: object = None
    if name in _EACH:
        parts = [module.constant(each) for each in made.args]
        shape = tuple(parts) if parts else None
    elif name in _FIRST:
        shape = _constant(module, module.argument(made, 0, "shape"))
    elif name in _SIZED:
        shape = _constant(module, module.argument(made, 2, "size"))
    elif name == "numpy.arange" or name.endswith("data.Dataset.range"):
        shape = module.constant(made.args[0]) if len(made.args) == 1 else None
    if isinstance(shape, int):
        shape = (shape,)
    if not isinstance(shape, tuple) or not shape:
        return None
    known = tuple(each for each in shape if isinstance(each, int))
    return known if len(known) == len(shape) else None


def _constant(module: Module, node: ast.expr | None) -> object:
    """Return a shape, which may also be written as a list."""
    if isinstance(node, ast.List):
        parts = [module.constant(each) for each in node.elts]
        return None if None in parts else tuple(parts)
    return module.constant(node)


def find_rows(module: Module, made: ast.AST) -> int | None:
    """Return how many rows the array, tensor or dataset that a call makes has; None if the code does not state it."""
    shape = find_shape(module, made)
    return None if shape is None else shape[0]
