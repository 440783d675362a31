"""The phase of each node: forward pass, backward pass or optimizer.

Gradients are recognized by the scopes, functions and ops that TensorFlow gives them; constants and sizes in these
scopes are not gradients. All other phases follow from data edges. What is computed from gradients belongs to the
backward pass if another gradient or an output needs it, and to the optimizer if an update of a variable needs it. A
loss that contains gradients, such as a gradient penalty, is the exception: it is returned, and the gradients of the
weights are computed from it. What is not computed from gradients belongs to the forward pass, except for nodes that
only gradients need, such as the seed of the first gradient, and nodes that only updates need, such as the learning
rate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowtide.atlas.index.arrays import Indices, Mask, any_of_rows, csr_entries, sorted_unique
from lowtide.atlas.index.op_roles import CALL, COPY, LIST, SUM, SWITCH, WRITE
from lowtide.atlas.index.phase_needs import PhaseNeeds
from lowtide.atlas.index.phases import BACKWARD, FORWARD, OPTIMIZER, ControlEdges, PhaseGraph, Phases, chunks
from lowtide.atlas.index.references import CONTROL, MISSING
from lowtide.atlas.index.sizes import assign_sizes, find_sizes


def find_phases(graph: PhaseGraph) -> Phases:
    """Return the phase of each node."""
    is_read = graph.first_reader[:-1] < graph.first_reader[1:]
    is_size = find_sizes(graph)
    sizes = graph.is_gradient & is_read & is_size
    graph = replace(graph, is_gradient=graph.is_gradient & ~sizes)
    phase = np.where(graph.is_gradient, BACKWARD, FORWARD).astype(np.uint8)
    if not graph.is_gradient.any():
        return phase
    control = ControlEdges(graph)
    after = _find_data_descendants(graph, control, graph.is_gradient)
    phase[after & ~graph.is_gradient] = OPTIMIZER
    phase[_find_data_ancestors(graph, graph.is_gradient, after)] = BACKWARD
    _assign_sums(graph, phase)
    inner = _assign_losses_of_gradients(graph, phase, control)
    outputs = _assign_outputs(graph, phase)
    PhaseNeeds(graph, phase, control, is_size).assign(np.concatenate([outputs, inner]))
    assign_sizes(graph, phase, sizes)
    return phase


def _find_data_descendants(graph: PhaseGraph, control: ControlEdges, start: Mask, among: Mask | None = None) -> Mask:
    """Return the nodes of `start` and every node, of `among` if given, that is computed from one."""
    seen = start.copy()
    closed = seen.copy() if among is None else seen | ~among
    frontier = np.flatnonzero(seen)
    frontier = frontier[~graph.has_role(frontier, LIST)]
    while len(frontier):
        found = []
        for rows in chunks(frontier):
            places, _ = csr_entries(graph.first_reader, rows)
            following = graph.readers[places]
            following = sorted_unique(following[~closed[following]])
            waits = control.is_reader[following]
            if waits.any():
                # The columns of readers do not distinguish control edges from data edges; the inputs do.
                reader, source, _ = graph.data_edges(following[waits])
                following = np.concatenate([following[~waits], sorted_unique(reader[seen[source]])])
            seen[following] = closed[following] = True
            found.append(following)
        frontier = np.concatenate(found)
    return seen


def _find_data_ancestors(graph: PhaseGraph, start: Mask, among: Mask) -> Mask:
    """Return the nodes of `start` and the nodes of `among` from which one is computed."""
    seen = start.copy()
    frontier = np.flatnonzero(seen)
    while len(frontier):
        found = []
        for rows in chunks(frontier):
            places, counts = csr_entries(graph.first_input, rows)
            # What decides between branches is not part of what passes through them.
            first = graph.first_input[rows]
            decides = np.repeat(graph.has_role(rows, SWITCH), counts) & (places != np.repeat(first, counts))
            places = places[~decides & (graph.ports[places] != CONTROL) & (graph.inputs[places] != MISSING)]
            before = graph.inputs[places]
            before = sorted_unique(before[among[before] & ~seen[before]])
            seen[before] = True
            found.append(before)
        frontier = np.concatenate(found)
    return seen


def _assign_losses_of_gradients(graph: PhaseGraph, phase: Phases, control: ControlEdges) -> Indices:
    """Assign losses that contain gradients, such as gradient penalties, to the forward pass; return these gradients.

    Such a loss is returned, or is not read at all in a graph with gradients of gradients, and gradients are computed
    from a node on the way to it. Gradients that are returned are not needed by others.
    """
    is_between = (phase != FORWARD) & ~graph.is_gradient
    is_between[graph.with_role(WRITE | CALL)] = False
    is_between[_find_sums_of_gradients(graph, phase)] = False
    reached = _find_data_descendants(graph, control, is_between & (phase == BACKWARD), is_between)
    ends = np.flatnonzero(reached & (graph.first_reader[:-1] == graph.first_reader[1:]))
    is_loss = np.zeros(len(graph), np.bool_)
    is_loss[ends if graph.has_nested_gradients else ends[graph.has_role(ends, COPY)]] = True
    losses = _find_data_ancestors(graph, is_loss, is_between)
    phase[losses] = FORWARD
    return np.flatnonzero(_find_data_ancestors(graph, losses, graph.is_gradient) & graph.is_gradient)


def _find_sums_of_gradients(graph: PhaseGraph, phase: Phases) -> Indices:
    """Return the sums of which no term is computed without gradients."""
    sums = graph.with_role(SUM)
    reader, source, _ = graph.data_edges(sums)
    return np.setdiff1d(sums, reader[phase[source] == FORWARD])


def _assign_sums(graph: PhaseGraph, phase: Phases) -> None:
    """Assign sums of gradients to the backward pass."""
    sums = graph.with_role(SUM)
    sums = sums[phase[sums] == OPTIMIZER]
    while len(sums):
        reader, source, _ = graph.data_edges(sums)
        rest = sorted_unique(reader[phase[source] != BACKWARD])
        if len(rest) == len(sums):
            break
        phase[sums] = BACKWARD
        phase[rest] = OPTIMIZER
        sums = rest


def _assign_outputs(graph: PhaseGraph, phase: Phases) -> Indices:
    """Assign what is computed from gradients for no update to the backward pass, such as gradients that are returned.

    Return the nodes that compute what is returned.
    """
    nodes = np.flatnonzero(phase == OPTIMIZER)
    nodes = nodes[~graph.has_role(nodes, WRITE | CALL)]
    ends = nodes[graph.first_reader[nodes] == graph.first_reader[nodes + 1]]
    is_returned = graph.has_role(ends, COPY)
    # Gradients that nothing reads come first, so that what is left was computed for something.
    _assign_before(graph, phase, ends[~is_returned])
    return _assign_before(graph, phase, ends[is_returned])


def _assign_before(graph: PhaseGraph, phase: Phases, nodes: Indices) -> Indices:
    """Assign nodes of the optimizer, and nodes that only they read, to the backward pass; return all of them."""
    found = [nodes]
    while len(nodes):
        phase[nodes] = BACKWARD
        _, source, _ = graph.data_edges(nodes)
        before = sorted_unique(source[phase[source] == OPTIMIZER])
        before = before[~graph.has_role(before, WRITE | CALL)]
        places, counts = csr_entries(graph.first_reader, before)
        nodes = before[~any_of_rows(phase[graph.readers[places]] == OPTIMIZER, counts)]
        found.append(nodes)
    return np.concatenate(found)
