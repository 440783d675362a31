"""A step that TensorFlow's executor runs node by node: its memory is simulated."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from lowtide.program.dtypes import element_bytes
from lowtide.program.graph import Graph, Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.simulate import Simulation, simulate
from lowtide.simulator.simulated_process import Residents
from lowtide.simulator.workload import Workload, build_workload
from lowtide.tf.trace.gpu_note import gpu_notes
from lowtide.tf.trace.rescale import SMALLEST_RESCALED_BATCH
from lowtide.tf.trace.source_lines import make_source_finder
from lowtide.tf.trace.step import StepMetadata
from lowtide.tf.trace.trace import Program, Trace, build_program, without_garbage_collection
from lowtide.tf.trace.xla.calls import size_compiled_calls
from lowtide.tide.columns import Building, Unmodelled
from lowtide.tide.describe import Labels, describe
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes, format_count


class SimulatedStep:
    """A step that TensorFlow's executor runs node by node."""

    def __init__(
        self,
        program: Program,
        metadata: StepMetadata,
        label: str,
        in_order: bool = False,
        budget_bytes: int | None = None,
    ) -> None:
        self.program = program
        self.metadata = metadata
        self.label = label
        self.in_order = in_order
        self.budget_bytes = budget_bytes
        # Shapes are not followed into loops, so a step with one is traced again for another batch size.
        self.rescales = not any(op in ("Enter", "Switch") for op in program.graph.ops)
        self.seconds = dict(program.seconds)
        self.other_devices = [SimulatedStep(each, metadata, label, in_order) for each in program.other_devices]
        """The parts of the step that run on other devices."""
        self.cost_us: float | None = None
        """The time of the step's ops by the cost model; known once the step has been simulated."""
        self._safe_bytes: dict[int, int] = {}
        self.peak_spread = 0.0
        """The difference between the highest and the lowest simulated peak, as a share of the median."""

    @property
    def concrete(self) -> Any:
        """The traced function."""
        return self.program.concrete

    @property
    def argument_shapes(self) -> list[Shape | None]:
        """Shapes of the flat arguments."""
        return self.program.argument_shapes

    @property
    def batch_size(self) -> int | None:
        """The batch size that the step was traced for."""
        return self.program.batch_size

    def with_body(
        self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None = None
    ) -> SimulatedStep:
        """Return the same step with another body, run in order, in a process limited to the budget."""
        traced = Trace(concrete, self.program.seconds["trace"], None)
        program = build_program(traced, progress)
        return SimulatedStep(program, self.metadata, self.label, in_order=True, budget_bytes=budget_bytes)

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        """Predict the tide; of several devices, that of the one that needs most, since each has its own memory."""
        tides = [step._device_tide(batch_size, progress, label) for step in (self, *self.other_devices)]
        fullest = max(tides, key=lambda tide: tide.safe_bytes)
        if fullest.batch_size is not None:
            self._safe_bytes[fullest.batch_size] = fullest.safe_bytes
        if len(tides) == 1:
            return fullest
        note = f"the step runs on {len(tides)} devices; this is the one that needs most"
        return replace(fullest, notes=(*fullest.notes, note))

    def _device_tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        report = progress or (lambda progress: None)
        with without_garbage_collection():
            work, simulation = self._simulate(batch_size, report)
            started = time.perf_counter()
            buffers, curve = describe(work, simulation, self.labels())
            self.seconds["explain"] = time.perf_counter() - started
        return Tide(
            target=label or self.label,
            method="simulated",
            batch_size=batch_size if batch_size is not None else self.program.batch_size,
            peak_bytes=simulation.peak_bytes,
            safe_bytes=_safe_bytes(work, simulation),
            highest_bytes=simulation.highest_bytes if simulation.has_modes else None,
            buffers=buffers,
            curve=curve,
            building=Building(
                self.program.traced_nodes, len(self.program.graph), self.program.graph_bytes, self.program.host_bytes
            ),
            unmodelled=_unmodelled(work),
            notes=(*gpu_notes(), *_notes(work, simulation)),
        )

    def safe_bytes(self, batch_size: int) -> int:
        """Return the safe bound at a batch size."""
        if batch_size not in self._safe_bytes:
            with without_garbage_collection():
                steps = (self, *self.other_devices)
                bounds = [_safe_bytes(*step._simulate(batch_size, lambda progress: None)) for step in steps]
            self._safe_bytes[batch_size] = max(bounds)
        return self._safe_bytes[batch_size]

    def rescales_to(self, batch_size: int) -> bool:
        """Whether the step can be predicted at a batch size as if it had been traced for it."""
        if batch_size == self.batch_size:
            return True
        traced = self.batch_size or 0
        programs = (self.program, *self.program.other_devices)
        return (
            self.rescales
            and traced >= SMALLEST_RESCALED_BATCH
            and all(program.rescales_to(batch_size) for program in programs)
        )

    def _simulate(self, batch_size: int | None, report: ProgressCallback) -> tuple[Workload, Simulation]:
        started = time.perf_counter()
        report(Progress("inferring shapes"))
        graph = self._graph(batch_size)
        inferred = time.perf_counter()
        report(Progress("simulating"))
        work = build_workload(graph)
        self.cost_us = sum(work.cost_us)
        built = time.perf_counter()
        simulation = simulate(
            work, self._residents(graph), self.metadata.steps_per_call, self.in_order, self.budget_bytes
        )
        self.peak_spread = (max(simulation.peaks) - min(simulation.peaks)) / max(simulation.peak_bytes, 1)
        self.seconds |= {
            "shapes": inferred - started,
            "workload": built - inferred,
            "simulate": time.perf_counter() - built,
        }
        return work, simulation

    def workload(self, batch_size: int | None) -> Workload:
        """Return the memory requests of each node at a batch size."""
        return build_workload(self._graph(batch_size))

    def _graph(self, batch_size: int | None) -> Graph:
        graph = self.program.graph_at(batch_size)
        size_compiled_calls(self.program, graph)
        return graph

    def _residents(self, graph: Graph) -> Residents:
        extra = tuple(math.prod(shape) * element_bytes(dtype) for _, _, dtype, shape in self.metadata.untouched)
        # Kernels and embeddings start as random numbers; biases and optimizer slots start as zeros.
        drawn = {
            handle
            for handle, (kind, _) in self._variables().items()
            if kind == "weights" and len(graph.variables.get(handle, (0, ()))[1]) >= 2
        }
        return Residents(extra, frozenset(drawn), self.metadata.held_bytes)

    def labels(self) -> Labels:
        """Return the variables, layers and source lines behind the names of the step's graph."""
        source = make_source_finder(self.program.concrete)
        return Labels(self._variables(), self.metadata.layers, source, tuple(self.metadata.untouched))

    def _variables(self) -> dict[int, tuple[str, str]]:
        """Return kind and name of each variable, by the tensor id of its handle."""
        program, kinds = self.program, self.metadata.kinds
        by_position = {
            program.input_count + position: kinds[id(handle)]
            for position, handle in enumerate(program.concrete.captured_inputs)
            if id(handle) in kinds
        }
        return {tensor: by_position[index] for index, tensor in program.arguments() if index in by_position}


def _unmodelled(work: Workload) -> tuple[Unmodelled, ...]:
    rows = [
        Unmodelled(op, len(nodes), sum(work.sizes[tensor] for node in nodes for tensor in work.outputs[node]))
        for op, nodes in work.unknown.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _safe_bytes(work: Workload, simulation: Simulation) -> int:
    """Return the safe bound, with room for what is not modelled.

    Unknown ops may need workspace as large as their outputs, and a tensor whose size depends on the data may be as
    large as the largest known tensor.
    """
    unknown = sum(row.bytes for row in _unmodelled(work))
    unsized_bytes = max(work.sizes, default=0) if _unsized(work) else 0
    return simulation.safe_bytes + unknown + unsized_bytes


def _unsized(work: Workload) -> list[int]:
    """Return the tensors of unknown size that may be large; shapes and lengths of tensor lists are small."""
    producers = work.graph.producers()
    return [tensor for tensor in work.unsized if not work.graph.ops[producers[tensor]].startswith("TensorList")]


def _notes(work: Workload, simulation: Simulation) -> tuple[str, ...]:
    notes = []
    if simulation.has_modes:
        notes.append(
            "iterations of the loops overlap, by more in some steps and processes than in others:"
            f" the usual peak is {format_bytes(simulation.peak_bytes)}, the highest"
            f" {format_bytes(simulation.highest_bytes)}"
        )
    unsized = _unsized(work)
    if unsized:
        producers = work.graph.producers()
        ops = sorted({work.graph.ops[producers[tensor]] for tensor in unsized})
        notes.append(
            f"{format_count(len(unsized), 'tensor has', 'tensors have')} a size that depends on the data"
            f" ({', '.join(ops[:5])})"
        )
    if simulation.stream.guesses:
        notes.append(
            format_count(len(simulation.stream.guesses), "branch or loop end depends", "branches or loop ends depend")
            + " on the data; the larger case is shown"
        )
    return tuple(notes)
