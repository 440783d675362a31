"""Steps: traced programs that can be looked at with any batch size."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import keras
import tensorflow as tf

from lowtide.program.dtypes import dtype_name, element_bytes
from lowtide.program.graph import Graph, Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.simulator.simulate import Residents, Simulation, simulate
from lowtide.simulator.workload import Workload, build_workload
from lowtide.tf.trace import keras_models as models
from lowtide.tf.trace.compiled_calls import size_compiled_calls
from lowtide.tf.trace.layer_origins import layer_finder
from lowtide.tf.trace.source_lines import source_finder
from lowtide.tf.trace.trace import Program, Trace, program_of, without_garbage_collection
from lowtide.tf.trace.xla.memory import XlaArgument, XlaMemory, guess_kind, is_compiled, xla_allocations
from lowtide.tf.trace.xla.tide import most_temporary, tide_of
from lowtide.tide.columns import Building, Unmodelled
from lowtide.tide.describe import Labels, describe
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide


def step_of(
    traced: Trace,
    belongings: Belongings,
    label: str,
    shapes: Sequence[Shape] | None = None,
    progress: ProgressCallback | None = None,
) -> Step:
    """XLA's own plan is the truth about a compiled step; any other step is simulated op by op.

    A function may be traced for open shapes; `shapes` are those that it is called with.
    """
    if is_compiled(traced.concrete):
        given = None
        if shapes is not None:
            inputs = traced.concrete.inputs[: len(shapes)]
            given = [tf.TensorSpec(shape, each.dtype) for shape, each in zip(shapes, inputs, strict=True)]
        return CompiledStep(traced, belongings, label, given)
    program = program_of(traced, progress)
    if shapes is not None:
        program.argument_shapes[: len(shapes)] = list(shapes)
    return SimulatedStep(program, belongings, label)


@dataclass(frozen=True)
class Belongings:
    """What is known of the layers and variables of a step."""

    layers: frozenset[str]
    kinds: Mapping[int, tuple[str, str]]
    """Kind and name of each variable, by the identity of its handle."""
    outside: Sequence[tuple[str, str, int, tuple[int, ...]]] = ()
    """Variables that the step does not touch: kind, name, dtype, shape."""
    together: int = 1
    """How many steps one call runs."""


def belongings_of(concrete: Any, model: keras.Model | None, owners: list[Any]) -> Belongings:
    """What Keras's objects say of the variables of a traced function."""
    return Belongings(
        models.layer_names(owners),
        models.variable_kinds(owners, concrete.graph.variables),
        models.variables_outside(concrete, model),
        models.steps_together(model),
    )


class Step(Protocol):
    """A traced step, ready to be looked at with a batch size."""

    seconds: dict[str, float]
    rescales: bool
    """Whether the step can be looked at with another batch size than the one it was traced for."""
    belongings: Belongings

    @property
    def concrete(self) -> Any: ...

    @property
    def argument_shapes(self) -> list[Shape | None]: ...

    @property
    def batch_size(self) -> int | None: ...

    def redefined(self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None) -> Step: ...

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide: ...

    def safe_bytes(self, batch_size: int) -> int: ...


class CompiledStep:
    """A step that XLA compiles as a whole. Another batch size means another compilation."""

    rescales = False

    def __init__(
        self,
        traced: Trace,
        belongings: Belongings,
        label: str,
        specs: Sequence[tf.TensorSpec] | None = None,
        is_planned: bool = False,
    ) -> None:
        self.traced = traced
        self.is_planned = is_planned
        self.belongings = belongings
        self.label = label
        self.layers = belongings.layers
        self.kinds = belongings.kinds
        self.others = [
            XlaArgument(name, kind, dtype_name(dtype), shape, math.prod(shape) * element_bytes(dtype), True)
            for kind, name, dtype, shape in belongings.outside
        ]
        inputs = traced.concrete.inputs[: len(traced.concrete.inputs) - len(traced.concrete.captured_inputs)]
        # A function may be traced for open shapes; XLA compiles for those that it is called with.
        self.specs = list(specs) if specs is not None else [tf.TensorSpec(each.shape, each.dtype) for each in inputs]
        self.seconds = {"trace": traced.seconds}
        self._compiled: Tide | None = None

    @cached_property
    def memory(self) -> XlaMemory:
        """What the compiled program asks for."""
        return xla_allocations(self.traced.concrete, self.specs, variable_kind=self._kind)

    def room(self, budget_bytes: int) -> int:
        """How large the temporary block may be in a budget."""
        return most_temporary(self.memory, (*self.memory.arguments, *self.others), budget_bytes)

    def written(self) -> frozenset[str]:
        """The nodes whose results the compiled program writes to memory."""
        return self.memory.module.written()

    @property
    def concrete(self) -> Any:
        """The traced function."""
        return self.traced.concrete

    @property
    def argument_shapes(self) -> list[Shape | None]:
        """Shapes of the flat inputs; captures are variables."""
        return [tuple(spec.shape) for spec in self.specs]

    def redefined(
        self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None = None
    ) -> CompiledStep:
        """The same step with another body."""
        traced = Trace(concrete, self.traced.seconds, None)
        return CompiledStep(traced, self.belongings, self.label, self.specs, is_planned=True)

    @property
    def building(self) -> Building:
        """What building it took."""
        traced = self.traced
        return Building(traced.nodes, len(self.memory.module.instructions), traced.graph_bytes, traced.host_bytes())

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        if progress is not None:
            progress(Progress("compiling with XLA"))
        started = time.perf_counter()
        memory = self.memory
        source = source_finder(self.traced.concrete)
        find = layer_finder(self.traced.concrete, self.layers, self.kinds)
        tide = tide_of(
            memory,
            target=label or self.label,
            batch_size=batch_size,
            others=self.others,
            layers=self.layers,
            locate=lambda name: (find(name), source(name)),
            building=self.building,
            is_promise=self.is_planned,
        )
        self.seconds |= {
            "compile": memory.compile_seconds,
            "read": time.perf_counter() - started - memory.compile_seconds,
        }
        self._compiled = tide
        return tide

    def _kind(self, variable: Any) -> str:
        return self.kinds.get(id(variable.handle), (guess_kind(variable), ""))[0]

    def safe_bytes(self, batch_size: int) -> int:
        """At the batch it was compiled for, exact; at another, what depends on the batch is taken as proportional."""
        tide = self._compiled or self.tide(self.batch_size, None, None)
        if self.batch_size in (None, batch_size):
            return tide.safe_bytes
        inputs = tide.buffers.requested[tide.buffers.kind == KINDS.index("input")].sum()
        steady = int(tide.curve.bytes_in_use[0] - inputs)
        return int(steady + (tide.safe_bytes - steady) * batch_size / self.batch_size)

    @property
    def batch_size(self) -> int | None:
        sizes = {spec.shape[0] for spec in self.specs if spec.shape.rank}
        return sizes.pop() if len(sizes) == 1 else None


class SimulatedStep:
    """A step that TensorFlow's executor runs op by op."""

    def __init__(
        self,
        program: Program,
        belongings: Belongings,
        label: str,
        in_order: bool = False,
        budget_bytes: int | None = None,
    ) -> None:
        self.program = program
        self.in_order = in_order
        self.budget_bytes = budget_bytes
        self.belongings = belongings
        self.label = label
        self.layers = belongings.layers
        self.kinds = belongings.kinds
        self.extra = belongings.outside
        self.together = belongings.together
        # Shapes that reach a loop from outside are not followed; such a step is traced again for another batch.
        self.rescales = not any(op in ("Enter", "Switch") for op in program.graph.ops)
        self.seconds = dict(program.seconds)
        self.beside = [SimulatedStep(each, belongings, label, in_order) for each in program.beside]
        """The step on other devices."""
        self.cost_us: float | None = None
        """What its ops take, by the cost model; known once it was simulated."""
        self.spread = 0.0
        """How far apart its simulated peaks are, as a share of the middle one."""

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
        """The batch that it was traced for."""
        return self.program.batch_size

    def redefined(
        self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None = None
    ) -> SimulatedStep:
        """The same step with another body, in order, for a process whose limit is the budget."""
        traced = Trace(concrete, self.program.seconds["trace"], None)
        program = program_of(traced, progress)
        return SimulatedStep(program, self.belongings, self.label, in_order=True, budget_bytes=budget_bytes)

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        """Of several devices the one that needs most, because each has memory of its own."""
        tides = [step._own_tide(batch_size, progress, label) for step in (self, *self.beside)]
        fullest = max(tides, key=lambda tide: tide.safe_bytes)
        if len(tides) == 1:
            return fullest
        words = f"the step runs on {len(tides)} devices; this is the one that needs most"
        return replace(fullest, notes=(*fullest.notes, words))

    def _own_tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        tell = progress or (lambda text: None)
        with without_garbage_collection():
            work, simulation = self._simulate(batch_size, tell)
            started = time.perf_counter()
            buffers, curve = describe(work, simulation, self.labels())
            self.seconds["explain"] = time.perf_counter() - started
        return Tide(
            target=label or self.label,
            method="simulated",
            batch_size=batch_size if batch_size is not None else self.program.batch_size,
            peak_bytes=simulation.peak_bytes,
            safe_bytes=_widened(work, simulation),
            buffers=buffers,
            curve=curve,
            building=Building(
                self.program.traced_nodes, len(self.program.graph), self.program.graph_bytes, self.program.host_bytes
            ),
            unmodelled=_unmodelled(work),
            notes=_notes(work, simulation),
        )

    def safe_bytes(self, batch_size: int) -> int:
        with without_garbage_collection():
            steps = (self, *self.beside)
            return max(_widened(*step._simulate(batch_size, lambda text: None)) for step in steps)

    def _simulate(self, batch_size: int | None, tell: ProgressCallback) -> tuple[Workload, Simulation]:
        started = time.perf_counter()
        tell(Progress("inferring shapes"))
        graph = self._graph(batch_size)
        inferred = time.perf_counter()
        tell(Progress("simulating"))
        work = build_workload(graph)
        self.cost_us = sum(work.cost_us)
        built = time.perf_counter()
        simulation = simulate(work, self._residents(graph), self.together, self.in_order, self.budget_bytes)
        self.spread = (max(simulation.peaks) - min(simulation.peaks)) / max(simulation.peak_bytes, 1)
        self.seconds |= {
            "shapes": inferred - started,
            "workload": built - inferred,
            "simulate": time.perf_counter() - built,
        }
        return work, simulation

    def workload(self, batch_size: int | None) -> Workload:
        """What each node asks for, at this batch."""
        return build_workload(self._graph(batch_size))

    def _graph(self, batch_size: int | None) -> Graph:
        graph = self.program.at(batch_size)
        size_compiled_calls(self.program, graph)
        return graph

    def _residents(self, graph: Graph) -> Residents:
        extra = tuple(math.prod(shape) * element_bytes(dtype) for _, _, dtype, shape in self.extra)
        # Kernels and embeddings are drawn at random; biases and what optimizers keep begin as zeros.
        drawn = {
            handle
            for handle, (kind, _) in self._variables().items()
            if kind == "weights" and len(graph.variables.get(handle, (0, ()))[1]) >= 2
        }
        return Residents(extra, frozenset(drawn))

    def labels(self) -> Labels:
        """What names mean in this step's graph."""
        return Labels(self._variables(), self.layers, source_finder(self.program.concrete), tuple(self.extra))

    def _variables(self) -> dict[int, tuple[str, str]]:
        """Kind and name of each variable, by the tensor id of its handle."""
        program = self.program
        captured = program.concrete.captured_inputs
        by_position = {
            program.input_count + position: self.kinds[id(handle)]
            for position, handle in enumerate(captured)
            if id(handle) in self.kinds
        }
        graph = program.graph
        by_tensor = {}
        for node, op in enumerate(graph.ops):
            if op in ("_Arg", "_DeviceArg"):
                index = graph.attributes[node].get("index")
                if index in by_position:
                    by_tensor[graph.first_output[node]] = by_position[index]
        return by_tensor


def _unmodelled(work: Workload) -> tuple[Unmodelled, ...]:
    rows = [
        Unmodelled(op, len(nodes), sum(work.sizes[tensor] for node in nodes for tensor in work.outputs[node]))
        for op, nodes in work.unknown.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _widened(work: Workload, simulation: Simulation) -> int:
    """The safe bound, with room for what is not known: as much again as unknown ops put out.

    A tensor whose size depends on the data may be as large as the largest that is known.
    """
    unknown = sum(row.bytes for row in _unmodelled(work))
    open_sizes = max(work.sizes, default=0) if _unsized(work) else 0
    return simulation.safe_bytes + unknown + open_sizes


def _unsized(work: Workload) -> list[int]:
    """Tensors of open size that may be large; shapes and lengths of lists are a few numbers each."""
    producers = work.graph.producers()
    return [tensor for tensor in work.unsized if not work.graph.ops[producers[tensor]].startswith("TensorList")]


def _notes(work: Workload, simulation: Simulation) -> tuple[str, ...]:
    notes = []
    unsized = _unsized(work)
    if unsized:
        producers = work.graph.producers()
        ops = sorted({work.graph.ops[producers[tensor]] for tensor in unsized})
        notes.append(f"{len(unsized)} tensors have a size that depends on the data ({', '.join(ops[:5])})")
    if simulation.schedule.guesses:
        notes.append(
            f"{len(simulation.schedule.guesses)} branches or loop ends depend on the data; the larger case is shown"
        )
    return tuple(notes)
