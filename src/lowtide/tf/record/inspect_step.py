"""What can be said of a recorded step by looking at its function: names, layers, lines, and what was predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.planning.remat.search import lower
from lowtide.planning.remat.target_search import QUICK_EFFORT
from lowtide.program.dtypes import element_bytes
from lowtide.program.graph import Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.run.graph_names import Names
from lowtide.tf.plan.planning_context import first_aim, pose
from lowtide.tf.record.called_function import Heard, batch_size_of, program_of_call
from lowtide.tf.trace.layer_origins import layer_finder
from lowtide.tf.trace.predict import solve_batch
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.source_lines import source_finder
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

LARGEST_BATCH = 1 << 20


@dataclass(frozen=True)
class Look:
    """What is known of a step's function."""

    names: Names
    batch_size: int | None
    building: Building
    step: SimulatedStep | CompiledStep | None

    def predict(self, label: str) -> Tide | None:
        """What `predict` says of this step."""
        return None if self.step is None else self.step.tide(self.batch_size, None, label)

    def largest_batch(self, budget: int) -> int | None:
        """The largest batch whose safe bound stays in the budget; None where the step says nothing of other sizes."""
        step, batch = self.step, self.batch_size
        if step is None or batch is None or not getattr(step, "rescales", False):
            return None
        found = solve_batch(step.safe_bytes, budget, LARGEST_BATCH, batch)
        # A step that any batch fits into is not a matter of the batch.
        return found if found < LARGEST_BATCH else None

    def planned_slowdown(self, predicted: Tide, budget: int) -> float | None:
        """What it would cost to run this step within the budget, by the planner's own figures; None where it cannot.

        Nothing is rewritten: the process may be dying, and a plan is made in the one that trains.
        """
        if not isinstance(self.step, SimulatedStep) or not self.step.rescales:
            return None
        with without_garbage_collection():
            problem = pose(self.step.workload(self.batch_size), predicted)
            answer = lower(problem, first_aim(budget), effort=QUICK_EFFORT)
        return answer.flood.extra_us / max(problem.total_us, 1e-9) if answer.within else None


def look_at_nothing(belongings: StepMetadata, batch_size: int | None = None) -> Look:
    """A step without a function of its own: the names of layers are all that is known."""
    return Look(Names(layers=belongings.layers), batch_size, Building(0, 0, 0, None), None)


def look_at(
    concrete: Any, shapes: Sequence[Shape | None], heard: Heard, belongings: StepMetadata, progress: ProgressCallback
) -> Look:
    """Look at the function of a call with these shapes."""
    look = _look_at_compiled if is_compiled(concrete) else _look_at_graph
    try:
        return look(concrete, shapes, heard, belongings, progress)
    except LowtideError:
        raise
    except Exception as error:
        # Programs are of many kinds, and what was recorded is worth more than names.
        raise LowtideError(str(error).partition("\n")[0], given=concrete.name) from error


def _look_at_graph(
    concrete: Any, shapes: Sequence[Shape | None], heard: Heard, belongings: StepMetadata, progress: ProgressCallback
) -> Look:
    progress(Progress("looking at the graph of the step"))
    program = program_of_call(concrete, shapes, heard)
    batch = program.batch_size
    step = SimulatedStep(program, belongings, concrete.name)
    graph = program.graph_at(batch)
    source = source_finder(concrete)
    layers = belongings.layers
    find = layer_finder(concrete, layers, belongings.kinds)
    blocks: dict[int, tuple[Owner, ...]] = {}
    for _, memory in compiled_calls(program, graph):
        blocks |= block_parts(memory, lambda name: (find(name), source(name)))
    names = Names(
        nodes=node_owners(graph, step.labels()),
        layers=layers,
        input_bytes=frozenset(_drawn_bytes(program)),
        blocks=blocks,
        source_of=source,
    )
    building = Building(program.traced_nodes, len(program.graph), program.graph_bytes, None)
    # What a data set runs is not in the graph that is given it.
    is_whole = not any(tensor.dtype == tf.variant for tensor in concrete.inputs)
    return Look(names, batch, building, step if is_whole else None)


def _look_at_compiled(
    concrete: Any, shapes: Sequence[Shape | None], heard: Heard, belongings: StepMetadata, progress: ProgressCallback
) -> Look:
    progress(Progress("compiling the step once more"))
    inputs = concrete.inputs[: len(concrete.inputs) - len(concrete.captured_inputs)]
    specs = [
        tf.TensorSpec(shape if shape is not None else tensor.shape, tensor.dtype)
        for tensor, shape in zip(inputs, [*shapes, *[None] * len(inputs)], strict=False)
    ]
    step = CompiledStep(Trace(concrete, 0.0, None), belongings, concrete.name, specs)
    source = source_finder(concrete)
    layers = belongings.layers
    find = layer_finder(concrete, layers, belongings.kinds)
    blocks = block_parts(step.memory, lambda name: (find(name), source(name)))
    names = Names(layers=layers, blocks=blocks, source_of=source)
    leading = {spec.shape[0] for spec in specs if spec.shape.rank}
    batch = leading.pop() if len(leading) == 1 else batch_size_of(concrete, heard)
    return Look(names, batch, step.building, step)


def _drawn_bytes(program: Program) -> Iterable[int]:
    """Sizes of what the step draws from a data set, or is given."""
    graph = program.graph
    for node, op in enumerate(graph.ops):
        index = graph.attributes[node].get("index") if op in ("_Arg", "_DeviceArg") else None
        if index is not None and index < program.input_count:
            shape = program.argument_shapes[index]
            if shape and -1 not in shape:
                yield math.prod(shape) * element_bytes(graph.dtypes[graph.first_output[node]])
