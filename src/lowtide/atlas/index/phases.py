"""The phase of each node: forward pass, backward pass or optimizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Column, Mask, csr_entries, sorted_unique
from lowtide.atlas.index.references import CONTROL

FORWARD, BACKWARD, OPTIMIZER = range(3)
PHASES = ("forward", "backward", "optimizer")


# Prefixes of the scopes that gradient tapes and `tf.gradients` of TensorFlow 1 create.
GRADIENT_SCOPES = ("gradient_tape", "gradients")
# Prefix of the functions that TensorFlow generates for a backward pass.
BACKWARD_FUNCTION = "__backward_"

# How many edges back from the optimizer `_extend_optimizer` looks for nodes that only the optimizer reads.
_ROUNDS = 30


def find_phases(
    is_gradient: Mask, first_input: Column, inputs: Column, ports: Column, first_reader: Column, readers: Column
) -> npt.NDArray[np.uint8]:
    """Return the phase of each node.

    Gradients are backward, and so are nodes between two gradients, as custom gradients are. Other nodes that depend on
    gradients belong to the optimizer, and so do nodes that only the optimizer reads.
    """
    phase = np.where(is_gradient, BACKWARD, FORWARD).astype(np.uint8)
    if not is_gradient.any():
        return phase
    after = _descendants(is_gradient, first_reader, readers)
    phase[after & ~is_gradient] = OPTIMIZER
    between = _data_ancestors(is_gradient, after, first_input, inputs, ports)
    phase[between] = BACKWARD
    _extend_optimizer(phase, first_input, inputs, first_reader, readers)
    return phase


def _descendants(marks: Mask, first_reader: Column, readers: Column) -> Mask:
    """Return the marked nodes and every node that depends on one of them, by data or control edges."""
    seen = marks.copy()
    frontier = np.flatnonzero(marks)
    while len(frontier):
        places, _ = csr_entries(first_reader, frontier)
        following = readers[places]
        frontier = sorted_unique(following[~seen[following]])
        seen[frontier] = True
    return seen


def _data_ancestors(marks: Mask, among: Mask, first_input: Column, inputs: Column, ports: Column) -> Mask:
    """Return the marked nodes and the nodes of `among` whose values reach one of them."""
    seen = marks.copy()
    frontier = np.flatnonzero(marks)
    while len(frontier):
        places, _ = csr_entries(first_input, frontier)
        places = places[(ports[places] != CONTROL) & (inputs[places] < len(marks))]
        before = inputs[places]
        frontier = sorted_unique(before[among[before] & ~seen[before]])
        seen[frontier] = True
    return seen


def _extend_optimizer(
    phase: npt.NDArray[np.uint8], first_input: Column, inputs: Column, first_reader: Column, readers: Column
) -> None:
    """Assign nodes that only the optimizer reads to the optimizer, one edge further back in each round."""
    frontier = np.flatnonzero(phase == OPTIMIZER)
    for _ in range(_ROUNDS):
        places, _counts = csr_entries(first_input, frontier)
        before = sorted_unique(inputs[places])
        before = before[before < len(phase)]
        before = before[phase[before] == FORWARD]
        places, counts = csr_entries(first_reader, before)
        others = np.concatenate([[0], np.cumsum(phase[readers[places]] != OPTIMIZER)])
        ends = np.cumsum(counts)
        frontier = before[others[ends] == others[ends - counts]]
        if not len(frontier):
            break
        phase[frontier] = OPTIMIZER
