"""The specs of a step's inputs, with the batch size filled in."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError

Specs = tuple[Any, ...]


def with_batch(specs: Specs, batch_size: int | None) -> Specs:
    """Return the specs with `batch_size` as the leading dimension of each.

    Known leading dimensions are replaced only if all specs share one size.
    """
    rows = _leading_sizes(specs)

    def fill(spec: Any) -> Any:
        if not getattr(spec, "shape", None) or not spec.shape.rank:
            return spec
        leading = spec.shape[0]
        replaced = batch_size is not None and (leading is None or (None not in rows and len(rows) == 1))
        shape = (batch_size if replaced else leading, *spec.shape[1:])
        if None in shape:
            cure = "pass batch_size=" if None not in shape[1:] else "give every dimension but the first a size"
            raise LowtideError("an input has an unknown dimension", given=tuple(spec.shape), cure=cure)
        return tf.TensorSpec(shape, spec.dtype, name=spec.name)

    return tuple(tf.nest.map_structure(fill, list(specs)))


def common_rows(specs: Specs) -> int | None:
    """Return the leading size that all specs share; None if there is none."""
    rows = _leading_sizes(specs)
    return rows.pop() if len(rows) == 1 else None


def without_batch(specs: Specs) -> list[Any]:
    """Return what describes the specs apart from the batch size."""
    return [(None if spec.shape.rank else (), tuple(spec.shape)[1:], spec.dtype.name) for spec in _leaves(specs)]


def _leading_sizes(specs: Specs) -> set[int | None]:
    return {spec.shape[0] for spec in _leaves(specs) if spec.shape.rank}


def _leaves(specs: Specs) -> list[Any]:
    return [spec for spec in tf.nest.flatten(list(specs)) if getattr(spec, "shape", None) is not None]
