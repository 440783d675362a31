"""Which nodes compute, which are the backward pass, and which belong to the optimizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.atlas.columns import Column, ragged

FORWARD, BACKWARD, OPTIMIZER = range(3)
PHASES = ("forward", "backward", "optimizer")

Marks = npt.NDArray[np.bool_]

# Scopes in which TensorFlow puts what differentiates: tapes, and `tf.gradients` of version 1.
GRADIENT_SCOPES = ("gradient_tape", "gradients")
# Functions made for a backward pass.
BACKWARD_FUNCTION = "__backward_"

# Who is only read by the optimizer belongs to it; so far back that is looked for.
_ROUNDS = 30


def find_phases(
    is_gradient: Marks, first_input: Column, inputs: Column, first_reader: Column, readers: Column
) -> npt.NDArray[np.uint8]:
    """Return the phase of each node.

    Backward are the gradients; the optimizer is what uses them without being one, and what nobody but the optimizer
    reads.
    """
    phase = np.where(is_gradient, BACKWARD, FORWARD).astype(np.uint8)
    if not is_gradient.any():
        return phase
    after = _reachable(is_gradient, first_reader, readers)
    phase[after & ~is_gradient] = OPTIMIZER
    count = len(phase)
    frontier = np.flatnonzero(phase == OPTIMIZER)
    for _ in range(_ROUNDS):
        places, _counts = ragged(first_input, frontier)
        before = np.unique(inputs[places])
        before = before[before < count]
        before = before[phase[before] == FORWARD]
        places, counts = ragged(first_reader, before)
        others = (phase[readers[places]] != OPTIMIZER).astype(np.int64)
        total = np.zeros(len(before) + 1, np.int64)
        ends = np.cumsum(counts)
        running = np.concatenate([[0], np.cumsum(others)])
        total = running[ends] - running[ends - counts]
        frontier = before[total == 0]
        if not len(frontier):
            break
        phase[frontier] = OPTIMIZER
    return phase


def _reachable(marks: Marks, first_reader: Column, readers: Column) -> Marks:
    """All that reads one of the marked nodes, directly or not, and they themselves."""
    seen = marks.copy()
    frontier = np.flatnonzero(marks)
    while len(frontier):
        places, _ = ragged(first_reader, frontier)
        following = np.unique(readers[places]) if len(places) else np.zeros(0, np.uint32)
        frontier = following[~seen[following]].astype(np.int64)
        seen[frontier] = True
    return seen
