"""Phases of nodes that are not computed from gradients: forward, unless only gradients or updates need them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np

from lowtide.atlas.index.arrays import Indices, Mask, any_of_rows, csr_entries, sorted_unique
from lowtide.atlas.index.op_roles import (
    ARGUMENT,
    CALL,
    CONSTANT,
    COPY,
    FILL,
    GROUP,
    INTEGER,
    READ,
    SAVE,
    SHAPE,
    VARIABLE,
    WRITE,
)
from lowtide.atlas.index.phases import BACKWARD, FORWARD, OPTIMIZER, ControlEdges, PhaseGraph, Phases, chunks

# A chain of nodes that only gradients or updates need is followed over at most this number of edges.
_LONGEST = 1000


class PhaseNeeds:
    """What needs the nodes that are not computed from gradients; readers are counted down as they get a phase."""

    def __init__(self, graph: PhaseGraph, phase: Phases, control: ControlEdges, is_size: Mask) -> None:
        self.graph, self.phase, self.control, self.is_size = graph, phase, control, is_size
        self.unread = self._find_unread_reads()
        self.waiting = np.zeros(len(graph), np.int32)
        """By node, the number of data edges to readers in the forward pass."""
        self.needed = np.zeros(len(graph), np.uint8)
        """By node, 1 if the backward pass needs its value, and 2 if the optimizer does, summed."""
        self.is_loss = np.zeros(len(graph), np.bool_)
        """Whether the node stays in the forward pass: the loss, of which the first gradients are computed."""

    def assign(self, outputs: Indices) -> None:
        """Assign nodes that only gradients or updates need to these phases; what `outputs` need stays forward."""
        phase = self.phase
        for rows in chunks(np.flatnonzero(phase == FORWARD)):
            _, source, _ = self._needs(rows)
            np.add.at(self.waiting, source, 1)
        _, source, _ = self._needs(outputs)
        self.is_loss[source[~self.graph.has_role(source, CONSTANT)]] = True
        for rows in chunks(np.flatnonzero(phase != FORWARD)):
            self._note_needs(rows)
        self._follow_needed()
        self._assign_groups()
        self._assign_writes()
        self._assign_groups()
        self._assign_state()

    def _follow_needed(self) -> None:
        """Assign the nodes that only gradients or updates need; the forward pass of a loss that nothing reads stays."""
        trial = self._copy()
        trial._follow(trial._ready(np.flatnonzero(trial.needed)))
        # Gradients need inputs and variables mostly through the loss.
        inputs = self.graph.with_role(ARGUMENT | VARIABLE | READ)
        inputs = inputs[(trial.phase[inputs] == BACKWARD) & (self.phase[inputs] == FORWARD)]
        if len(inputs):
            lost = np.zeros(len(self.graph), np.bool_)
            lost[inputs] = True
            reader, source, _ = self.graph.data_edges(
                np.flatnonzero((trial.phase == BACKWARD) & (self.phase == FORWARD))
            )
            _spread(lost, reader, source)
            self._mark_losses(lost)
            self._follow(self._ready(np.flatnonzero(self.needed)))
        else:
            self.phase[:], self.waiting, self.needed = trial.phase, trial.waiting, trial.needed

    def _needs(self, rows: Indices, *, writes: bool = False) -> tuple[Indices, Indices, Mask]:
        """Return the data edges of some nodes, and which of them need values.

        Edges that need nothing of the source are left out, and so are variables that a node writes without `writes`.
        """
        graph = self.graph
        reader, source, is_first = graph.data_edges(rows)
        is_need = ~graph.has_role(reader, SAVE) & ~self.unread[reader]
        if not writes:
            is_need &= ~(is_first & graph.has_role(reader, WRITE))
        return reader[is_need], source[is_need], ~graph.has_role(reader[is_need], SHAPE)

    def _find_unread_reads(self) -> Mask:
        """Mark the reads of variables that nothing but a checkpoint reads."""
        graph = self.graph
        unread = np.zeros(len(graph), np.bool_)
        nodes = graph.with_role(READ | COPY)
        nodes = nodes[self.phase[nodes] == FORWARD]
        places, counts = csr_entries(graph.first_reader, nodes)
        nodes = nodes[~any_of_rows(~graph.has_role(graph.readers[places], SAVE), counts)]
        reader, source, _ = graph.data_edges(nodes)
        unread[reader[graph.has_role(source, VARIABLE)]] = True
        return unread

    def _mark_losses(self, among: Mask) -> None:
        """Mark the sources of the first gradients: those that are computed from no other gradient of a value."""
        graph, phase = self.graph, self.phase
        is_static = self._find_static()
        for rows in chunks(np.flatnonzero(phase == BACKWARD)):
            reader, source, is_value = self._needs(rows)
            is_later = np.zeros(len(rows), np.bool_)
            row = np.searchsorted(rows, reader)
            is_later[row[(phase[source] == BACKWARD) & ~is_static[source]]] = True
            first = source[is_value & ~is_later[row] & ~is_static[reader] & (phase[source] == FORWARD) & among[source]]
            self.is_loss[first[~graph.has_role(first, CONSTANT | SHAPE | FILL)]] = True

    def _find_static(self) -> Mask:
        """Mark sizes, and nodes of the backward pass that are computed from sizes and constants alone."""
        graph = self.graph
        is_static = self.is_size.copy()
        frontier = np.flatnonzero(is_static)
        for _ in range(_LONGEST):
            if not len(frontier):
                break
            places, _ = csr_entries(graph.first_reader, frontier)
            readers = graph.readers[places]
            readers = sorted_unique(readers[(self.phase[readers] == BACKWARD) & ~is_static[readers]])
            reader, source, _ = graph.data_edges(readers)
            is_computed = np.isin(readers, reader[~is_static[source]], assume_unique=False)
            frontier = readers[~is_computed]
            is_static[frontier] = True
        return is_static

    def _note_needs(self, rows: Indices) -> Indices:
        """Note that some nodes, which have a phase, need their inputs; return the inputs."""
        reader, source, is_value = self._needs(rows, writes=True)
        for phase in (BACKWARD, OPTIMIZER):
            self.needed[source[is_value & (self.phase[reader] == phase)]] |= phase
        return source

    def _ready(self, nodes: Indices) -> Indices:
        """Return the nodes that are needed, and by no node of the forward pass."""
        is_ready = (self.waiting[nodes] == 0) & (self.needed[nodes] > 0) & (self.phase[nodes] == FORWARD)
        is_ready &= ~self.is_loss[nodes]
        return np.asarray(nodes[is_ready])

    def _follow(self, nodes: Indices) -> None:
        """Give the nodes that are ready the earlier of the phases that need them, and continue with their inputs."""
        for _ in range(_LONGEST):
            if not len(nodes):
                break
            backward = self.needed[nodes] & BACKWARD != 0
            self.phase[nodes] = np.where(backward, BACKWARD, OPTIMIZER)
            needed = self._note_needs(nodes)
            np.subtract.at(self.waiting, self._needs(nodes)[1], 1)
            nodes = self._ready(sorted_unique(needed))

    def _assign_groups(self) -> None:
        """Assign nodes without data, which only group or return updates, to the optimizer."""
        control, phase = self.control, self.phase
        is_group = self.graph.has_role(control.reader, GROUP | COPY)
        with_data, _, _ = self.graph.data_edges(sorted_unique(control.reader[is_group]))
        is_group &= ~np.isin(control.reader, with_data)
        source, reader = control.source[is_group], control.reader[is_group]
        for _ in range(_LONGEST):
            found = reader[(phase[source] == OPTIMIZER) & (phase[reader] == FORWARD)]
            if not len(found):
                break
            phase[found] = OPTIMIZER

    def _assign_writes(self) -> None:
        """Assign writes of variables that belong to an update: weight decay, averages of weights, step counters.

        They are computed from variables and constants alone. They are ordered before or after a node of the optimizer,
        or they count, or they follow other variables.
        """
        for _ in range(_LONGEST):
            found = self._find_update_writes()
            if not len(found):
                break
            self._assign_to_optimizer(found)

    def _find_update_writes(self) -> Indices:
        # First without writes of what is computed from data, such as moving averages, which an average may follow.
        alone = self._keep(self._find_writes(), self._is_computed_alone)
        return self._keep(alone, lambda inside: self._is_computed_alone(inside) & self._is_part_of_update(inside))

    def _keep(self, writes: Indices, is_kept: Callable[[Mask], Mask]) -> Indices:
        """Return the writes for which a condition holds on what they and no others need; the rest is left out."""
        while len(writes):
            trial = self._copy()
            trial._assign_to_optimizer(writes)
            kept = writes[is_kept((trial.phase == OPTIMIZER) & (self.phase == FORWARD))[writes]]
            if len(kept) == len(writes):
                break
            # Without the others, fewer nodes may be needed by these writes alone.
            writes = kept
        return writes

    def _is_part_of_update(self, is_inside: Mask) -> Mask:
        return self._is_ordered(is_inside) | self._is_counter(is_inside) | self._is_average(is_inside)

    def _find_writes(self) -> Indices:
        """Return the nodes of the forward pass that change variables and whose results nothing reads."""
        nodes = self.graph.with_role(WRITE | CALL)
        is_open = (self.phase[nodes] == FORWARD) & ~self.is_loss[nodes]
        is_read = (self.waiting[nodes] > 0) | (self.needed[nodes] > 0)
        return np.asarray(nodes[is_open & (self.graph.has_role(nodes, WRITE) | ~is_read)])

    def _is_computed_alone(self, is_inside: Mask) -> Mask:
        """Mark the nodes of a selection that are computed from variables, constants and the optimizer alone."""
        graph = self.graph
        is_fed = np.zeros(len(graph), np.bool_)
        reader, source, _ = graph.data_edges(np.flatnonzero(is_inside))
        inner = is_inside[source]
        is_fed[reader[~inner & ~graph.has_role(source, CONSTANT | VARIABLE) & (self.phase[source] != OPTIMIZER)]] = True
        data = graph.with_role(ARGUMENT)
        is_fed[data[~graph.has_role(data, VARIABLE)]] = True
        _spread(is_fed, reader[inner], source[inner])
        return is_inside & ~is_fed

    def _is_ordered(self, is_inside: Mask) -> Mask:
        """Mark the nodes of a selection that read or follow the optimizer, or come directly before an update."""
        graph, control, phase = self.graph, self.control, self.phase
        is_ordered = np.zeros(len(graph), np.bool_)
        is_update = (phase[control.reader] == OPTIMIZER) & ~graph.has_role(control.reader, GROUP)
        is_ordered[control.source[is_update & graph.has_role(control.source, WRITE)]] = True
        # The forward pass reads what it has written, such as a normalized kernel.
        is_read = (phase[control.reader] == FORWARD) & graph.has_role(control.reader, READ) & ~is_inside[control.reader]
        is_ordered[control.source[is_read]] = False
        is_ordered[control.reader[phase[control.source] == OPTIMIZER]] = True
        reader, source, _ = graph.data_edges(np.flatnonzero(is_inside))
        # What another update reads too, such as the learning rate.
        is_shared = (phase[source] == OPTIMIZER) | (is_inside[source] & (self.needed[source] & OPTIMIZER != 0))
        is_ordered[reader[is_shared & ~self.is_size[source]]] = True
        inner = is_inside[source]
        _spread(is_ordered, reader[inner], source[inner])
        return is_ordered

    def _is_counter(self, is_inside: Mask) -> Mask:
        """Mark the writes of integers to variables that only these writes read."""
        graph = self.graph
        is_counter = np.zeros(len(graph), np.bool_)
        reader, source, is_first = graph.data_edges(self._find_writes_of_state(is_inside))
        is_counter[reader[~is_first & graph.has_role(source, INTEGER)]] = True
        return is_counter

    def _is_average(self, is_inside: Mask) -> Mask:
        """Mark the writes to variables that only these writes read, if they are computed from another variable."""
        graph = self.graph
        is_average = np.zeros(len(graph), np.bool_)
        reader, source, _ = graph.data_edges(np.flatnonzero(is_inside))
        is_average[reader[graph.has_role(source, VARIABLE) & ~is_inside[source] & graph.has_role(reader, READ)]] = True
        inner = is_inside[source]
        _spread(is_average, reader[inner], source[inner])
        is_state = np.zeros(len(graph), np.bool_)
        is_state[self._find_writes_of_state(is_inside)] = True
        return is_average & is_state

    def _find_writes_of_state(self, is_inside: Mask) -> Indices:
        """Return the writes to variables of a selection, in a graph with updates."""
        graph = self.graph
        writes = graph.with_role(WRITE)
        if not (self.phase[writes] == OPTIMIZER).any():
            return writes[:0]
        reader, source, is_first = graph.data_edges(writes)
        return np.asarray(reader[is_first & is_inside[source]])

    def _assign_state(self) -> None:
        """Assign initializers and unread reads of variables that only the optimizer needs to it."""
        graph = self.graph
        variables = graph.with_role(VARIABLE)
        places, _ = csr_entries(graph.first_reader, variables[self.phase[variables] == OPTIMIZER])
        readers = sorted_unique(graph.readers[places])
        readers = readers[(self.phase[readers] == FORWARD) & graph.has_role(readers, WRITE | READ | COPY)]
        self._assign_to_optimizer(readers)

    def _assign_to_optimizer(self, nodes: Indices) -> None:
        self.needed[nodes] |= OPTIMIZER
        self._follow(nodes)

    def _copy(self) -> PhaseNeeds:
        other = copy(self)
        other.phase, other.waiting, other.needed = self.phase.copy(), self.waiting.copy(), self.needed.copy()
        return other


def _spread(marks: Mask, reader: Indices, source: Indices) -> None:
    """Mark what is computed from a marked node, along some edges."""
    for _ in range(_LONGEST):
        found = reader[marks[source] & ~marks[reader]]
        if not len(found):
            break
        marks[found] = True
