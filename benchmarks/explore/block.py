"""One block of a transformer's training step as nodes of a GraphDef, and how thousands of it are written at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lowtide.sources.protobuf.encode import (
    dtype_attribute,
    encode_bytes,
    encode_integer,
    shapes_attribute,
    text_attribute,
)

FLOAT, INT32, RESOURCE = 1, 3, 20
ACTIVATION, SCORES, KERNEL, BIAS = (32, 64), (32, 32), (64, 64), (64,)
HYPERPARAMETERS = ("beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon")
_DENSE = ("attn/q", "attn/k", "attn/v", "attn/out", "mlp/dense_1", "mlp/dense_2")
_NORMS = ("ln1", "ln2")
_CHUNK_BYTES = 16 << 20
_NO, _YES = encode_integer(5, 0), encode_integer(5, 1)
_REDUCTION = {"Tidx": dtype_attribute(INT32), "keep_dims": _YES}
# What TensorFlow writes of these ops besides types and shapes.
_ATTRIBUTES = {
    "MatMul": {"transpose_a": _NO, "transpose_b": _NO, "grad_a": _NO, "grad_b": _NO},
    "BiasAdd": {"data_format": text_attribute("NHWC")},
    "BiasAddGrad": {"data_format": text_attribute("NHWC")},
    "Mean": _REDUCTION,
    "Sum": _REDUCTION,
    "VarHandleOp": {
        "container": text_attribute(""),
        "allowed_devices": encode_bytes(1, b""),
        "debug_name": text_attribute(""),
    },
    "ResourceApplyAdam": {"use_locking": _YES, "use_nesterov": _NO},
}


class Sheet:
    """Nodes one after the other, as the bytes of a GraphDef."""

    def __init__(self, *, flat: bool = False, device: str = "") -> None:
        self.data, self.count = bytearray(), 0
        self._flat, self._device = flat, device

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[str] = (),
        shape: tuple[int, ...] = ACTIVATION,
        dtype: int = FLOAT,
    ) -> str:
        """Add a node; returns its name."""
        content = bytearray(encode_bytes(1, self.named(name)) + encode_bytes(2, op))
        for each in inputs:
            content += encode_bytes(3, self.named(each))
        if self._device:
            content += encode_bytes(4, self._device)
        for key, attribute in self._attributes(name, op, shape, dtype).items():
            content += encode_bytes(5, encode_bytes(1, key) + encode_bytes(2, attribute))
        self.data += encode_bytes(1, content)
        self.count += 1
        return name

    def _attributes(self, name: str, op: str, shape: tuple[int, ...], dtype: int) -> dict[str, bytes]:
        typed = "dtype" if op in ("Const", "VarHandleOp", "ReadVariableOp", "Placeholder") else "T"
        found = {typed: dtype_attribute(dtype), "_output_shapes": shapes_attribute([shape]), **_ATTRIBUTES.get(op, {})}
        return {**found, "shared_name": text_attribute(self.named(name))} if op == "VarHandleOp" else found

    def named(self, name: str) -> str:
        """A name as it is written: a flat graph has no scopes."""
        return name.replace("/", ".") if self._flat else name


def variables(scope: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The variables of a block, and their shapes."""
    for layer in _DENSE:
        yield f"{scope}/{layer}/kernel", KERNEL
        yield f"{scope}/{layer}/bias", BIAS
    for layer in _NORMS:
        yield f"{scope}/{layer}/gamma", BIAS
        yield f"{scope}/{layer}/beta", BIAS


def forward(sheet: Sheet, scope: str, x: str) -> str:
    """A block's forward pass; returns what it gives."""
    add = sheet.add
    normal = _normalize(sheet, f"{scope}/ln1", x)
    query, key, value = (_dense(sheet, f"{scope}/attn/{name}", normal) for name in "qkv")
    scores = add(f"{scope}/attn/MatMul", "MatMul", (query, key), SCORES)
    scale = add(f"{scope}/attn/scale", "Const", (), ())
    scaled = add(f"{scope}/attn/Mul", "Mul", (scores, scale), SCORES)
    weights = add(f"{scope}/attn/Softmax", "Softmax", (scaled,), SCORES)
    read = add(f"{scope}/attn/MatMul_1", "MatMul", (weights, value))
    between = add(f"{scope}/add", "AddV2", (x, _dense(sheet, f"{scope}/attn/out", read)))
    hidden = _dense(sheet, f"{scope}/mlp/dense_1", _normalize(sheet, f"{scope}/ln2", between))
    hidden = add(f"{scope}/mlp/Relu", "Relu", (hidden,))
    return add(f"{scope}/add_1", "AddV2", (between, _dense(sheet, f"{scope}/mlp/dense_2", hidden)))


def _dense(sheet: Sheet, scope: str, x: str) -> str:
    kernel, bias = (_variable(sheet, f"{scope}/{name}", shape) for name, shape in (("kernel", KERNEL), ("bias", BIAS)))
    product = sheet.add(f"{scope}/MatMul", "MatMul", (x, kernel))
    return sheet.add(f"{scope}/BiasAdd", "BiasAdd", (product, bias))


def _variable(sheet: Sheet, name: str, shape: tuple[int, ...]) -> str:
    handle = sheet.add(name, "VarHandleOp", (), (), RESOURCE)
    return sheet.add(f"{name}/Read/ReadVariableOp", "ReadVariableOp", (handle,), shape)


def _normalize(sheet: Sheet, scope: str, x: str) -> str:
    add, column = sheet.add, (32, 1)
    axis = add(f"{scope}/moments/axis", "Const", (), (1,), INT32)
    mean = add(f"{scope}/moments/mean", "Mean", (x, axis), column)
    distance = add(f"{scope}/moments/SquaredDifference", "SquaredDifference", (x, mean))
    variance = add(f"{scope}/moments/variance", "Mean", (distance, axis), column)
    shifted = add(f"{scope}/batchnorm/add", "AddV2", (variance, "model/epsilon"), column)
    inverse = add(f"{scope}/batchnorm/Rsqrt", "Rsqrt", (shifted,), column)
    gamma, beta = (_variable(sheet, f"{scope}/{name}", BIAS) for name in ("gamma", "beta"))
    factor = add(f"{scope}/batchnorm/mul", "Mul", (inverse, gamma))
    scaled = add(f"{scope}/batchnorm/mul_1", "Mul", (x, factor))
    offset = add(f"{scope}/batchnorm/mul_2", "Mul", (mean, factor))
    rest = add(f"{scope}/batchnorm/sub", "Sub", (beta, offset))
    return add(f"{scope}/batchnorm/add_1", "AddV2", (scaled, rest))


def backward(sheet: Sheet, scope: str, gradient: str) -> str:
    """A block's gradients and updates; returns the gradient of what enters it."""
    add, own = sheet.add, f"gradients/{scope}"
    hidden = _dense_gradient(sheet, scope, "mlp/dense_2", f"{scope}/mlp/Relu", gradient)
    hidden = add(f"{own}/mlp/Relu_grad/ReluGrad", "ReluGrad", (hidden, f"{scope}/mlp/Relu"))
    hidden = _dense_gradient(sheet, scope, "mlp/dense_1", f"{scope}/ln2/batchnorm/add_1", hidden)
    hidden = _norm_gradient(sheet, scope, "ln2", f"{scope}/add", hidden)
    between = add(f"{own}/AddN", "AddN", (gradient, hidden))
    read = _dense_gradient(sheet, scope, "attn/out", f"{scope}/attn/MatMul_1", between)
    scores = add(f"{own}/attn/MatMul_1_grad/MatMul", "MatMul", (read, f"{scope}/attn/v/BiasAdd"), SCORES)
    value = add(f"{own}/attn/MatMul_1_grad/MatMul_1", "MatMul", (f"{scope}/attn/Softmax", read))
    total = add(f"{own}/attn/Softmax_grad/Sum", "Sum", (scores, f"{scope}/attn/scale"), (32, 1))
    less = add(f"{own}/attn/Softmax_grad/sub", "Sub", (scores, total), SCORES)
    scores = add(f"{own}/attn/Softmax_grad/mul", "Mul", (less, f"{scope}/attn/Softmax"), SCORES)
    query = add(f"{own}/attn/MatMul_grad/MatMul", "MatMul", (scores, f"{scope}/attn/k/BiasAdd"))
    key = add(f"{own}/attn/MatMul_grad/MatMul_1", "MatMul", (scores, f"{scope}/attn/q/BiasAdd"))
    normal = f"{scope}/ln1/batchnorm/add_1"
    parts = [
        _dense_gradient(sheet, scope, f"attn/{name}", normal, part)
        for name, part in zip("qkv", (query, key, value), strict=True)
    ]
    entering = _norm_gradient(sheet, scope, "ln1", f"{scope}/ln1/moments/mean", add(f"{own}/attn/AddN", "AddN", parts))
    result = add(f"{own}/AddN_1", "AddN", (between, entering))
    _update(sheet, scope)
    return result


def _dense_gradient(sheet: Sheet, scope: str, layer: str, x: str, gradient: str) -> str:
    own = f"gradients/{scope}/{layer}"
    sheet.add(f"{own}/bias", "BiasAddGrad", (gradient,), BIAS)
    sheet.add(f"{own}/kernel", "MatMul", (x, gradient), KERNEL)
    return sheet.add(f"{own}/MatMul", "MatMul", (gradient, f"{scope}/{layer}/kernel/Read/ReadVariableOp"))


def _norm_gradient(sheet: Sheet, scope: str, layer: str, x: str, gradient: str) -> str:
    add, own = sheet.add, f"gradients/{scope}/{layer}"
    add(f"{own}/beta", "Sum", (gradient, f"{scope}/{layer}/moments/axis"), BIAS)
    product = add(f"{own}/mul_1_grad/Mul", "Mul", (gradient, x))
    add(f"{own}/gamma", "Sum", (product, f"{scope}/{layer}/moments/axis"), BIAS)
    scaled = add(f"{own}/mul_1_grad/Mul_1", "Mul", (gradient, f"{scope}/{layer}/batchnorm/mul"))
    less = add(f"{own}/mul_2_grad/Neg", "Neg", (product,))
    return add(f"{own}/AddN", "AddN", (scaled, less))


def _update(sheet: Sheet, scope: str) -> None:
    shared = [f"train/{name}" for name in HYPERPARAMETERS]
    for name, shape in variables(scope):
        own = f"train/{name}"
        first, second = (sheet.add(f"{own}/{part}", "VarHandleOp", (), (), RESOURCE) for part in ("m", "v"))
        given = (name, first, second, *shared, f"gradients/{name}")
        sheet.add(f"{own}/ResourceApplyAdam", "ResourceApplyAdam", given, shape)


# -- thousands of them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """The bytes of a block, and where in them each of its numbers stands: a row of digits for every place."""

    data: npt.NDArray[np.uint8]
    places: Mapping[str, npt.NDArray[np.int64]]

    def stamp(self, numbers: Mapping[str, npt.NDArray[np.int64]]) -> Iterator[bytes]:
        """The bytes of many blocks that differ in their numbers alone, some megabytes at a time."""
        count = len(next(iter(numbers.values())))
        most = max(_CHUNK_BYTES // len(self.data), 1)
        for first in range(0, count, most):
            chosen = {name: values[first : first + most] for name, values in numbers.items()}
            blocks = np.tile(self.data, (len(next(iter(chosen.values()))), 1))
            for name, places in self.places.items():
                powers = 10 ** np.arange(places.shape[1])[::-1]
                digits = chosen[name][:, None] // powers % 10 + ord("0")
                blocks[:, places] = digits[:, None, :].astype(np.uint8)
            yield blocks.tobytes()


Make = Callable[..., bytes]
"""Makes a block's bytes from its numbers, which are given as texts of digits."""


@lru_cache(maxsize=256)
def find_template(make: Make, widths: tuple[tuple[str, int], ...]) -> Template:
    """The template of all blocks whose numbers have these widths; it marks the bytes that depend on a digit."""
    zeros = {name: "0" * width for name, width in widths}
    data = np.frombuffer(make(**zeros), np.uint8)
    places = {}
    for name, width in widths:
        other = np.frombuffer(make(**{**zeros, name: "9" * width}), np.uint8)
        places[name] = np.flatnonzero(data != other).reshape(-1, width)
    return Template(data, places)
