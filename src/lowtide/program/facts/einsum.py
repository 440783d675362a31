"""Einsum: one kernel that transposes its operands, multiplies them and transposes the product, all into new buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lowtide.program.facts.op_fact import OpFact, register
from lowtide.program.facts.shapes import elements, input_shape, item_bytes, known, known_pairs
from lowtide.program.graph import NodeView, Shape

# The order in which the kernel wants the dimensions of an operand.
_BROADCAST, _BATCH, _FREE, _CONTRACT, _REDUCE = range(5)


@dataclass(frozen=True)
class _Einsum:
    """The buffers of one einsum, in elements; None for a step that needs no buffer of its own."""

    operands: list[int | None]
    scratch: list[int]
    """What making each operand took on the way."""
    product: int | None
    result: int | None


def _label_kind(label: int, operands: list[list[int]], output: list[int]) -> int:
    if label < 0:
        return _BROADCAST
    is_removed = label not in output
    is_unique = sum(label in labels for labels in operands) < 2
    return {(0, 0): _BATCH, (0, 1): _FREE, (1, 0): _CONTRACT, (1, 1): _REDUCE}[is_removed, is_unique]


def _parse(equation: str, shapes: list[Shape]) -> tuple[list[list[int]], list[int]]:
    """Labels as numbers in order of appearance; dimensions under an ellipsis count up to -1."""
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
    """The permutation that the kernel applies to an operand; the identity if it can multiply it as it is."""
    swapped = {_FREE: _CONTRACT, _CONTRACT: _FREE}
    keys = [(swapped.get(kinds[label], kinds[label]), label) for label in labels]
    if all(first <= second for first, second in pairwise(keys)):
        return list(range(len(labels)))
    return sorted(range(len(labels)), key=lambda index: (kinds[labels[index]], labels[index]))


def _operand(shape: Shape, labels: list[int], kinds: dict[int, int]) -> tuple[int | None, int, list[int]]:
    """Elements of the buffer kept for an operand, of what its making took on the way, and its free labels."""
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
    """What is alive beside the output, which is the last buffer made, at the worst moment."""
    plan = _plan(node)
    alive = [size for size in [*plan.operands, plan.product, plan.result] if size is not None]
    item = item_bytes(node.input_dtype(0))
    at_the_end = [size * item for size in alive[:-1]]
    held = 0
    worst_on_the_way = 0
    for kept, scratch in zip(plan.operands, plan.scratch, strict=True):
        held += kept or 0
        worst_on_the_way = max(worst_on_the_way, (held + scratch if scratch else 0))
    on_the_way = worst_on_the_way * item - sum(size * item for size in alive[-1:])
    return [on_the_way] if on_the_way > sum(at_the_end) else at_the_end


def _aliases(node: NodeView) -> Sequence[tuple[int, int]]:
    """An einsum of one operand that only renames its dimensions is the same buffer."""
    plan = _plan(node)
    nothing_made = all(size is None for size in [*plan.operands, plan.product, plan.result])
    return [(0, 0)] if nothing_made else []


register("Einsum", OpFact(aliases=known_pairs(_aliases), temporaries=known(_temporaries)))
