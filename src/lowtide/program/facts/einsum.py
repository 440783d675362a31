"""Einsum: one kernel that transposes its operands, multiplies them and transposes the product, all in new buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import elements, input_shape, item_bytes, known
from lowtide.program.graph import NodeView, Shape

# The order in which the kernel needs the dimensions of an operand.
_BROADCAST, _BATCH, _FREE, _CONTRACT, _REDUCE = range(5)


@dataclass(frozen=True)
class _Einsum:
    """The buffers of one einsum, in elements; None for a stage without a new buffer."""

    operands: list[int | None]
    scratch: list[int]
    """Intermediate buffers of each operand's preparation."""
    product: int | None
    result: int | None


def _label_kind(label: int, operands: list[list[int]], output: list[int]) -> int:
    if label < 0:
        return _BROADCAST
    is_removed = label not in output
    is_unique = sum(label in labels for labels in operands) < 2
    return {(0, 0): _BATCH, (0, 1): _FREE, (1, 0): _CONTRACT, (1, 1): _REDUCE}[is_removed, is_unique]


def _parse(equation: str, shapes: list[Shape]) -> tuple[list[list[int]], list[int]]:
    """Return labels as numbers in order of appearance; the dimensions of an ellipsis count up to -1."""
    left, right = equation.replace(" ", "").split("->")
    numbers: dict[str, int] = {}

    def read(text: str, hidden: int) -> list[int]:
        labels: list[int] = []
        head, ellipsis, tail = text.partition("...")
        labels += [numbers.setdefault(letter, len(numbers)) for letter in head]
        labels += range(-hidden, 0) if ellipsis else []
        labels += [numbers.setdefault(letter, len(numbers)) for letter in tail]
        return labels

    hidden_most = 0
    operands = []
    for text, shape in zip(left.split(","), shapes, strict=True):
        hidden = len(shape) - len(text.replace("...", ""))
        hidden_most = max(hidden_most, hidden)
        operands.append(read(text, hidden))
    return operands, read(right, hidden_most)


def _order(labels: list[int], kinds: dict[int, int]) -> list[int]:
    """Return the permutation that the kernel applies to an operand; the identity if no transpose is needed."""
    swapped = {_FREE: _CONTRACT, _CONTRACT: _FREE}
    keys = [(swapped.get(kinds[label], kinds[label]), label) for label in labels]
    if all(first <= second for first, second in pairwise(keys)):
        return list(range(len(labels)))
    return sorted(range(len(labels)), key=lambda index: (kinds[labels[index]], labels[index]))


def _operand(shape: Shape, labels: list[int], kinds: dict[int, int]) -> tuple[int | None, int, list[int]]:
    """Return the elements of an operand's final buffer and of its intermediate buffers, and its free labels."""
    order = _order(labels, kinds)
    sizes = dict(zip(labels, shape, strict=True))
    steps: list[int] = []
    if len(shape) > 1 and order != list(range(len(labels))):
        steps.append(elements(shape))
    if len(sizes) < len(labels):
        steps.append(elements(list(sizes.values())))
    reduced = elements([size for label, size in sizes.items() if kinds[label] == _REDUCE])
    if reduced != 1:
        steps.append(elements(list(sizes.values())) // max(reduced, 1))
    free = list(dict.fromkeys(labels[index] for index in order if kinds[labels[index]] == _FREE))
    return (steps[-1] if steps else None), sum(steps[:-1]), free


def _plan(node: NodeView) -> _Einsum:
    shapes = [input_shape(node, index) for index in range(node.input_count)]
    operands, output = _parse(node.attribute("equation"), shapes)
    labels = {label for operand in [*operands, output] for label in operand}
    kinds = {label: _label_kind(label, operands, output) for label in labels}
    made = [_operand(shape, operand, kinds) for shape, operand in zip(shapes, operands, strict=True)]
    sizes: dict[int, int] = {}
    for shape, operand in zip(shapes, operands, strict=True):
        for label, size in zip(operand, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    batch = sorted(label for label in labels if kinds[label] == _BROADCAST)
    batch += sorted(label for label in labels if kinds[label] == _BATCH)
    product_labels = batch + [label for _, _, free in made for label in free]
    product = elements([sizes[label] for label in product_labels]) if len(shapes) == 2 else None
    result = None
    if len(output) != len(set(output)) or (len(output) > 1 and output != product_labels):
        result = elements([sizes[label] for label in output])
    return _Einsum([kept for kept, _, _ in made], [scratch for _, scratch, _ in made], product, result)


def _temporaries(node: NodeView) -> Sequence[int]:
    """Return the buffers besides the output at the kernel's peak; the output is the last buffer allocated."""
    plan = _plan(node)
    alive = [size for size in [*plan.operands, plan.product, plan.result] if size is not None]
    item = item_bytes(node.input_dtype(0))
    at_end = [size * item for size in alive[:-1]]
    held = 0
    intermediate_peak = 0
    for kept, scratch in zip(plan.operands, plan.scratch, strict=True):
        held += kept or 0
        intermediate_peak = max(intermediate_peak, (held + scratch if scratch else 0))
    intermediate = intermediate_peak * item - sum(size * item for size in alive[-1:])
    return [intermediate] if intermediate > sum(at_end) else at_end


def _aliases(node: NodeView) -> Sequence[tuple[int, int]]:
    """An einsum of one operand that only renames its dimensions is a view."""
    plan = _plan(node)
    no_buffers = all(size is None for size in [*plan.operands, plan.product, plan.result])
    return [(0, 0)] if no_buffers else []


register("Einsum", OpFact(aliases=known(_aliases), temporaries=known(_temporaries)))
