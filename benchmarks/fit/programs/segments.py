"""Recomputation as a person places it today: a Keras model in segments, each inside `tf.recompute_grad`.

This is what the peers do. The layers of a functional model are cut into consecutive segments; each becomes a plain
function of the tensors that enter it, and returns those that leave it. The last segment is needed at once and is left
alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras


def recompute_at_blocks(models: Sequence[keras.Model], ends: str, wrap: Callable[..., Any]) -> None:
    """Cut each model behind every layer whose name fits the pattern."""
    for model in models:
        nodes = _nodes(model)
        _segment(model, nodes, [bool(re.search(ends, node.operation.name)) for node in nodes], wrap)


def recompute_by_square_root(models: Sequence[keras.Model], wrap: Callable[..., Any]) -> None:
    """Cut each model into about as many segments as they have layers, all of a size."""
    for model in models:
        nodes = _nodes(model)
        _segment(model, nodes, cut_evenly([_output_size(node) for node in nodes]), wrap)


def cut_evenly(sizes: Sequence[int]) -> list[bool]:
    """Behind which of so large results to cut, for about the square root of their number of equal segments.

    Small results cost nothing to keep: only those of at least a tenth of the largest are counted.
    """
    large = sum(size >= max(sizes) / 10 for size in sizes)
    count = max(round(math.sqrt(large)), 1)
    whole, passed, cuts = sum(sizes), 0, []
    for size in sizes:
        before = passed * count // whole
        passed += size
        cuts.append(passed * count // whole > before)
    return cuts


def _nodes(model: keras.Model) -> list[Any]:
    """The calls of layers, in the order in which the model makes them."""
    by_depth = model._nodes_by_depth
    return [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth] if not node.is_input]


def _output_size(node: Any) -> int:
    return sum(math.prod(tensor.shape[1:]) for tensor in node.outputs)


def _segment(model: keras.Model, nodes: list[Any], cuts: list[bool], wrap: Callable[..., Any]) -> None:
    segments: list[list[Any]] = [[]]
    for node, cut in zip(nodes, cuts, strict=True):
        segments[-1].append(node)
        if cut:
            segments.append([])
    model.call = _caller(model, [segment for segment in segments if segment], wrap)


def _caller(model: keras.Model, segments: list[list[Any]], wrap: Callable[..., Any]) -> Callable[..., Any]:
    """A `call` for the model that runs its segments one after the other."""
    borders = [_borders(segment, segments, model) for segment in segments]

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        values = {id(tensor): value for tensor, value in zip(model.inputs, keras.tree.flatten(inputs), strict=True)}
        for segment, (entering, leaving) in zip(segments, borders, strict=True):
            run = _runner(segment, entering, leaving, training)
            if segment is not segments[-1]:
                run = wrap(run)
            results = run(*(values[name] for name in entering))
            values.update(zip(leaving, results, strict=True))
        outputs = [values[id(tensor)] for tensor in model.outputs]
        return outputs[0] if len(outputs) == 1 else outputs

    return call


def _borders(segment: list[Any], segments: list[list[Any]], model: keras.Model) -> tuple[list[int], list[int]]:
    """Which tensors enter a segment, and which leave it."""
    made = {id(tensor): None for node in segment for tensor in node.outputs}
    used = {id(tensor): None for node in segment for tensor in node.input_tensors}
    elsewhere = {
        id(tensor) for other in segments if other is not segment for node in other for tensor in node.input_tensors
    } | {id(tensor) for tensor in model.outputs}
    return [name for name in used if name not in made], [name for name in made if name in elsewhere]


def _runner(
    segment: list[Any], entering: list[int], leaving: list[int], training: bool | None
) -> Callable[..., tuple[Any, ...]]:
    def run(*given: Any) -> tuple[Any, ...]:
        values = dict(zip(entering, given, strict=True))
        for node in segment:
            positional, named = node.arguments.fill_in(values)
            # When a segment runs again the model is not called, so each layer receives `training` here.
            if "training" in getattr(node.operation, "_call_context_args", ()):
                named["training"] = training
            results = keras.tree.flatten(node.operation(*positional, **named))
            values.update((id(tensor), value) for tensor, value in zip(node.outputs, results, strict=True))
        return tuple(values[name] for name in leaving)

    return run
