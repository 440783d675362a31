"""`lt.feed.inspect`: the buffers of each stage of a running pipeline, as TensorFlow counts them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import model_pb2

from lowtide.errors import LowtideError
from lowtide.feed.forecast.text_table import align
from lowtide.feed.pipeline.error_notes import without_nodes
from lowtide.units import format_bytes


@dataclass(frozen=True)
class RunningStage:
    """The buffers of one stage of a running pipeline."""

    name: str
    depth: int
    """The number of stages between it and the consumer of the batches."""
    held_bytes: int
    held_elements: int
    produced_elements: int


@dataclass(frozen=True)
class RunningStages:
    """The stages of a running pipeline, last stage first, in depth-first order of their inputs."""

    stages: tuple[RunningStage, ...]

    @property
    def held_bytes(self) -> int:
        """The total size of all buffers."""
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
        rows = [("stage", "holds", "elements", "produced"), *rows, ("all", format_bytes(self.held_bytes), "", "")]
        return align(rows)


def inspect(iterator: Any) -> RunningStages:
    """Return what the stages behind an iterator, `iter(dataset)`, hold in their buffers now.

    Tensors that a pipeline was made from, such as those of `from_tensor_slices`, are not buffers and are not counted.
    TensorFlow may fuse stages: a map and a batch become a MapAndBatch. It counts only if
    `options.autotune.enabled` is true; for datasets of lt.feed, set it with `with_options`.
    """
    resource = getattr(iterator, "_iterator_resource", None)
    if resource is None:
        raise LowtideError(
            "this is not an iterator of a dataset", given=type(iterator).__name__, cure="give iter(dataset)"
        )
    try:
        content = tf.raw_ops.IteratorGetModelProto(iterator=resource).numpy()
    except tf.errors.OpError as error:
        raise LowtideError(
            "TensorFlow does not count the buffers of this pipeline",
            given=without_nodes(error.message.splitlines()[0]),
            cure="take a batch first, and iterate over dataset.with_options(...) with options.autotune.enabled = True",
        ) from error
    model = model_pb2.ModelProto()
    model.ParseFromString(content)
    if not model.nodes:
        raise LowtideError("the pipeline has not started", cure="take a batch first")
    found: list[RunningStage] = []
    waiting = [(model.output, 0)]
    while waiting:
        number, depth = waiting.pop()
        node = model.nodes[number]
        # The root is the iterator itself.
        if number != model.output:
            found.append(
                RunningStage(
                    re.sub(r"V\d+$", "", node.name),
                    depth - 1,
                    node.buffered_bytes,
                    node.buffered_elements,
                    node.num_elements,
                )
            )
        waiting += [(each, depth + 1) for each in reversed(node.inputs)]
    return RunningStages(tuple(found))
