"""Inspects the function of a recorded step: names, layers and source lines of its nodes, and its prediction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.planning.remat.remat_search import find_schedule
from lowtide.planning.tuning import TUNING
from lowtide.program.dtypes import element_bytes
from lowtide.program.graph import Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.graph_names import GraphNames
from lowtide.tf.plan.planning_context import build_step_problem
from lowtide.tf.record.called_function import StepAllocations, batch_size_of, program_of_call
from lowtide.tf.trace.layer_origins import make_layer_finder
from lowtide.tf.trace.predict import solve_batch
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.source_lines import make_source_finder
from lowtide.tf.trace.step import StepMetadata
from lowtide.tf.trace.trace import Program, Trace, without_garbage_collection
from lowtide.tf.trace.xla.calls import compiled_calls
from lowtide.tf.trace.xla.memory import is_compiled
from lowtide.tf.trace.xla.step import CompiledStep
from lowtide.tf.trace.xla.tide import block_parts
from lowtide.tide.columns import Building
from lowtide.tide.describe import node_owners
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide

MAX_BATCH = 1 << 20


@dataclass(frozen=True)
class StepInspection:
    """What the function of a step says about the step."""

    names: GraphNames
    batch_size: int | None
    building: Building
    step: SimulatedStep | CompiledStep | None

    def predict(self, label: str) -> Tide | None:
        """The predicted tide of this step; None without the whole step's function and every size of its inputs."""
        return None if self.step is None else self.step.tide(self.batch_size, None, label)

    def largest_batch(self, budget: int) -> int | None:
        """The largest batch whose safe bound fits the budget; None if the step cannot be rescaled."""
        step, batch = self.step, self.batch_size
        if step is None or batch is None or not step.rescales:
            return None
        found = solve_batch(step.safe_bytes, budget, MAX_BATCH, batch)
        # If any batch fits, memory did not run out because of the batch.
        return found if found < MAX_BATCH else None

    def planned_slowdown(self, predicted: Tide, budget: int) -> float | None:
        """The extra time, as a share, of a plan that fits the budget, as the planner estimates it; None if none does.

        Nothing is rewritten or simulated, since the process may be crashing, so the plan must leave a margin.
        """
        if not isinstance(self.step, SimulatedStep) or not self.step.rescales:
            return None
        with without_garbage_collection():
            problem = build_step_problem(self.step.workload(self.batch_size), predicted)
            target_bytes = int(budget / (1.0 + TUNING.unchecked_margin))
            solution = find_schedule(problem, target_bytes, effort=TUNING.remat_quick_effort)
        return solution.profile.extra_us / max(problem.total_us, 1e-9) if solution.within else None


def uninspected(metadata: StepMetadata, batch_size: int | None = None) -> StepInspection:
    """A step whose function is not known: only the names of layers are."""
    return StepInspection(GraphNames(layers=metadata.layers), batch_size, Building(0, 0, 0, None), None)


def inspect_function(
    concrete: Any,
    shapes: Sequence[Shape | None],
    allocations: StepAllocations,
    metadata: StepMetadata,
    progress: ProgressCallback,
) -> StepInspection:
    """Inspect the function of a call; `shapes` are those of its arguments."""
    inspect = _inspect_compiled if is_compiled(concrete) else _inspect_graph
    try:
        return inspect(concrete, shapes, allocations, metadata, progress)
    except LowtideError:
        raise
    except Exception as error:
        # The recorded tide is useful without names, so no function may make it fail.
        raise LowtideError(str(error).partition("\n")[0], given=concrete.name) from error


def _inspect_graph(
    concrete: Any,
    shapes: Sequence[Shape | None],
    allocations: StepAllocations,
    metadata: StepMetadata,
    progress: ProgressCallback,
) -> StepInspection:
    progress(Progress("inspecting the graph of the step"))
    program = program_of_call(concrete, shapes, allocations)
    batch = program.batch_size
    step = SimulatedStep(program, metadata, concrete.name)
    graph = program.graph_at(batch)
    source = make_source_finder(concrete)
    layers = metadata.layers
    find = make_layer_finder(concrete, layers, metadata.kinds)
    blocks: dict[int, tuple[Owner, ...]] = {}
    for _, memory in compiled_calls(program, graph):
        blocks |= block_parts(memory, lambda name: (find(name), source(name)))
    names = GraphNames(
        nodes=node_owners(graph, step.labels()),
        layers=layers,
        input_bytes=frozenset(_input_bytes(program)),
        blocks=blocks,
        source_of=source,
    )
    building = Building(program.traced_nodes, len(program.graph), program.graph_bytes, None)
    # The functions of a dataset are not in the graph that receives the dataset.
    is_whole = not any(tensor.dtype == tf.variant for tensor in concrete.inputs)
    return StepInspection(names, batch, building, step if is_whole and _has_known_inputs(program) else None)


def _inspect_compiled(
    concrete: Any,
    shapes: Sequence[Shape | None],
    allocations: StepAllocations,
    metadata: StepMetadata,
    progress: ProgressCallback,
) -> StepInspection:
    progress(Progress("compiling the step again"))
    inputs = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
    specs = [
        tf.TensorSpec(shape if shape is not None else tensor.shape, tensor.dtype)
        for tensor, shape in zip(inputs, [*shapes, *[None] * len(inputs)], strict=False)
    ]
    step = CompiledStep(Trace(concrete, 0.0, None), metadata, concrete.name, specs)
    source = make_source_finder(concrete)
    layers = metadata.layers
    find = make_layer_finder(concrete, layers, metadata.kinds)
    blocks = block_parts(step.memory, lambda name: (find(name), source(name)))
    names = GraphNames(layers=layers, blocks=blocks, source_of=source)
    leading = {spec.shape[0] for spec in specs if spec.shape.rank}
    batch = leading.pop() if len(leading) == 1 else batch_size_of(concrete, allocations)
    return StepInspection(names, batch, step.building, step)


def _has_known_inputs(program: Program) -> bool:
    """Whether every size of the inputs is known; of a batch from an iterator only the first size is inferred."""
    return all(shape is not None and -1 not in shape for shape in program.argument_shapes[: program.input_count])


def _input_bytes(program: Program) -> Iterable[int]:
    """The sizes of the step's inputs, including the batch that it takes from a dataset."""
    graph = program.graph
    for node, op in enumerate(graph.ops):
        index = graph.attributes[node].get("index") if op in ("_Arg", "_DeviceArg") else None
        if index is not None and index < program.input_count:
            shape = program.argument_shapes[index]
            if shape and -1 not in shape:
                yield math.prod(shape) * element_bytes(graph.dtypes[graph.first_output[node]])
