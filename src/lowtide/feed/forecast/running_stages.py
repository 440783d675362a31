"""`lt.feed.inspect`: what every stage of a running pipeline holds, as TensorFlow counts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import model_pb2

from lowtide.errors import LowtideError
from lowtide.feed.forecast.text_table import align
from lowtide.units import format_bytes


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline at a moment."""

    name: str
    depth: int
    """How many stages are between it and whoever takes the batches."""
    held_bytes: int
    held_elements: int
    produced_bytes: int
    produced_elements: int


@dataclass(frozen=True)
class Stages:
    """The stages of a pipeline, the last one first; several lines of them lead into an interleave or a zip."""

    stages: tuple[Stage, ...]

    @property
    def held_bytes(self) -> int:
        """What they hold together."""
        return sum(stage.held_bytes for stage in self.stages)

    def __iter__(self) -> Any:
        return iter(self.stages)

    def __len__(self) -> int:
        return len(self.stages)

    def __str__(self) -> str:
        rows = [
            (
                "  " * stage.depth + stage.name,
                format_bytes(stage.held_bytes),
                f"{stage.held_elements:,}",
                f"{stage.produced_elements:,}",
            )
            for stage in self.stages
        ]
        rows = [("stage", "holds", "elements", "gave so far"), *rows, ("all", format_bytes(self.held_bytes), "", "")]
        return align(rows)


def inspect(iterator: Any) -> Stages:
    """What the stages behind an iterator, `iter(dataset)`, hold now in their buffers.

    Tensors that a pipeline was made from, such as those of `from_tensor_slices`, are no buffers and are not counted.
    TensorFlow sometimes makes one stage of two: a map and a batch are a MapAndBatch. It counts where
    `options.autotune.enabled` is true; in lowtide's own datasets it is not, unless `with_options` says so.
    """
    resource = getattr(iterator, "_iterator_resource", None)
    if resource is None:
        raise LowtideError("this is no iterator of a dataset", given=type(iterator).__name__, cure="give iter(dataset)")
    try:
        content = tf.raw_ops.IteratorGetModelProto(iterator=resource).numpy()
    except tf.errors.OpError as error:
        raise LowtideError(
            "TensorFlow keeps no account of this pipeline",
            given=error.message.splitlines()[0],
            cure="take a batch first, and iterate over dataset.with_options(...) with options.autotune.enabled = True",
        ) from error
    model = model_pb2.ModelProto()
    model.ParseFromString(content)
    if not model.nodes:
        raise LowtideError("the pipeline has not begun", cure="take a batch first")
    found: list[Stage] = []
    waiting = [(model.output, 0)]
    while waiting:
        number, depth = waiting.pop()
        node = model.nodes[number]
        # The root is the iterator itself.
        if number != model.output:
            found.append(
                Stage(
                    re.sub(r"V\d+$", "", node.name),
                    depth - 1,
                    node.buffered_bytes,
                    node.buffered_elements,
                    node.bytes_produced,
                    node.num_elements,
                )
            )
        waiting += [(each, depth + 1) for each in reversed(node.inputs)]
    return Stages(tuple(found))
