"""Short names for the tensors of probes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf.probe import Case, Input


def f(*shape: int) -> Input:
    return Input(shape)


def half(*shape: int) -> Input:
    return Input(shape, "float16")


def bf(*shape: int) -> Input:
    return Input(shape, "bfloat16")


def i(*shape: int, high: int = 8, dtype: str = "int32") -> Input:
    return Input(shape, dtype, high)


def b(*shape: int) -> Input:
    return Input(shape, "bool")


def c(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


def case(op: str, attributes: dict[str, Any] | None = None, **inputs: Any) -> Case:
    return Case(op, inputs, attributes or {})
