"""Which nodes compute, which are the backward pass, and which belong to the optimizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.columns import Column, csr_entries, distinct
from lowtide.atlas.index.references import CONTROL

FORWARD, BACKWARD, OPTIMIZER = range(3)
PHASES = ("forward", "backward", "optimizer")

Mask = npt.NDArray[np.bool_]

# How names begin that TensorFlow gives to what differentiates: tapes, and `tf.gradients` of version 1.
GRADIENT_SCOPES = ("gradient_tape", "gradients")
# Functions made for a backward pass.
BACKWARD_FUNCTION = "__backward_"

# Who is only read by the optimizer belongs to it; so far back that is looked for.
_ROUNDS = 30


def find_phases(
    is_gradient: Mask, first_input: Column, inputs: Column, ports: Column, first_reader: Column, readers: Column
) -> npt.NDArray[np.uint8]:
    """Return the phase of each node.

    Backward are the gradients, and what is computed from gradients for others of them, as custom gradients are. The
    optimizer is what uses gradients without being one, and what nobody but the optimizer reads.
    """
    phase = np.where(is_gradient, BACKWARD, FORWARD).astype(np.uint8)
    if not is_gradient.any():
        return phase
    after = _after(is_gradient, first_reader, readers)
    phase[after & ~is_gradient] = OPTIMIZER
    between = _before(is_gradient, after, first_input, inputs, ports)
    phase[between] = BACKWARD
    _spread(phase, first_input, inputs, first_reader, readers)
    return phase


def _after(marks: Mask, first_reader: Column, readers: Column) -> Mask:
    """All that reads one of the marked nodes or waits for it, directly or not, and they themselves."""
    seen = marks.copy()
    frontier = np.flatnonzero(marks)
    while len(frontier):
        places, _ = csr_entries(first_reader, frontier)
        following = readers[places]
        frontier = distinct(following[~seen[following]])
        seen[frontier] = True
    return seen


def _before(marks: Mask, among: Mask, first_input: Column, inputs: Column, ports: Column) -> Mask:
    """Those among some nodes whose values reach a marked node, and the marked ones."""
    seen = marks.copy()
    frontier = np.flatnonzero(marks)
    while len(frontier):
        places, _ = csr_entries(first_input, frontier)
        places = places[(ports[places] != CONTROL) & (inputs[places] < len(marks))]
        before = inputs[places]
        frontier = distinct(before[among[before] & ~seen[before]])
        seen[frontier] = True
    return seen


def _spread(
    phase: npt.NDArray[np.uint8], first_input: Column, inputs: Column, first_reader: Column, readers: Column
) -> None:
    """Give to the optimizer what nobody else reads, step by step further back."""
    frontier = np.flatnonzero(phase == OPTIMIZER)
    for _ in range(_ROUNDS):
        places, _counts = csr_entries(first_input, frontier)
        before = distinct(inputs[places])
        before = before[before < len(phase)]
        before = before[phase[before] == FORWARD]
        places, counts = csr_entries(first_reader, before)
        others = np.concatenate([[0], np.cumsum(phase[readers[places]] != OPTIMIZER)])
        ends = np.cumsum(counts)
        frontier = before[others[ends] == others[ends - counts]]
        if not len(frontier):
            break
        phase[frontier] = OPTIMIZER
