"""A step that XLA compiles as a whole."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf

from lowtide.program.dtypes import dtype_name, element_bytes
from lowtide.program.graph import Shape
from lowtide.progress import Progress, ProgressCallback
from lowtide.tf.trace.keras_models import guess_variable
from lowtide.tf.trace.layer_origins import make_layer_finder
from lowtide.tf.trace.source_lines import make_source_finder
from lowtide.tf.trace.step import StepMetadata
from lowtide.tf.trace.trace import Trace
from lowtide.tf.trace.xla.limits import largest_temporary_bytes
from lowtide.tf.trace.xla.memory import VARIABLE, XlaArgument, XlaMemory, compile_step
from lowtide.tf.trace.xla.tide import build_tide
from lowtide.tide.columns import Building
from lowtide.tide.kinds import KINDS
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide


class CompiledStep:
    """A step that XLA compiles as a whole. Another batch size means another compilation."""

    rescales = False

    def __init__(
        self,
        traced: Trace,
        metadata: StepMetadata,
        label: str,
        specs: Sequence[tf.TensorSpec] | None = None,
        is_planned: bool = False,
    ) -> None:
        self.traced = traced
        self.metadata = metadata
        self.label = label
        self.is_planned = is_planned
        self.untouched = [
            XlaArgument(
                Owner(name, VARIABLE, None, kind, dtype_name(dtype), shape, math.prod(shape) * element_bytes(dtype))
            )
            for kind, name, dtype, shape in metadata.untouched
        ]
        inputs = traced.concrete.inputs[: len(traced.concrete.inputs) - len(traced.concrete.captured_inputs)]
        # The function may have been traced with unknown dimensions; XLA compiles for the shapes of a call.
        self.specs = list(specs) if specs is not None else [tf.TensorSpec(each.shape, each.dtype) for each in inputs]
        self.seconds = {"trace": traced.seconds}
        self._tide: Tide | None = None

    @cached_property
    def memory(self) -> XlaMemory:
        """The allocations of the compiled program."""
        return compile_step(self.concrete, self.specs, variable_kind=self._variable_kind)

    def temporary_budget(self, budget_bytes: int) -> int:
        """Return how large the temporary block may be within a budget."""
        return largest_temporary_bytes(self.memory, (*self.memory.arguments, *self.untouched), budget_bytes)

    def written_nodes(self) -> frozenset[str]:
        """Return the nodes whose results the compiled program writes to memory."""
        return self.memory.module.written()

    @property
    def concrete(self) -> Any:
        """The traced function."""
        return self.traced.concrete

    @property
    def argument_shapes(self) -> list[Shape | None]:
        """Shapes of the flat inputs; captures are variables."""
        return [tuple(spec.shape) for spec in self.specs]

    @property
    def batch_size(self) -> int | None:
        """The batch size that the step is compiled for; None if the inputs have no common one."""
        sizes = {spec.shape[0] for spec in self.specs if spec.shape.rank}
        return sizes.pop() if len(sizes) == 1 else None

    def with_body(
        self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None = None
    ) -> CompiledStep:
        """Return the same step with another body: the one that a plan makes."""
        traced = Trace(concrete, self.traced.seconds, None)
        return CompiledStep(traced, self.metadata, self.label, self.specs, is_planned=True)

    @property
    def building(self) -> Building:
        """The sizes of the traced and the compiled program."""
        traced = self.traced
        return Building(traced.nodes, len(self.memory.module.instructions), traced.graph_bytes, traced.host_bytes())

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide:
        """Compile the step and predict its tide."""
        if progress is not None:
            progress(Progress("compiling with XLA"))
        started = time.perf_counter()
        memory = self.memory
        source = make_source_finder(self.concrete)
        find = make_layer_finder(self.concrete, self.metadata.layers, self.metadata.kinds)
        self._tide = build_tide(
            memory,
            target=label or self.label,
            batch_size=batch_size,
            others=self.untouched,
            layers=self.metadata.layers,
            locate=lambda name: (find(name), source(name)),
            building=self.building,
            is_planned=self.is_planned,
        )
        self.seconds |= {
            "compile": memory.compile_seconds,
            "read": time.perf_counter() - started - memory.compile_seconds,
        }
        return self._tide

    def rescales_to(self, batch_size: int) -> bool:
        """Whether the step was compiled for this batch size."""
        return batch_size == self.batch_size

    def _variable_kind(self, variable: Any) -> str:
        known = self.metadata.kinds.get(id(variable.handle))
        return (known or guess_variable(variable))[0]

    def safe_bytes(self, batch_size: int) -> int:
        """Return the safe bound: exact at the compiled batch size, at others scaled in proportion to the batch."""
        tide = self._tide or self.tide(self.batch_size, None, None)
        if self.batch_size in (None, batch_size):
            return tide.safe_bytes
        inputs = tide.buffers.requested[tide.buffers.kind == KINDS.index("input")].sum()
        fixed = int(tide.curve.bytes_in_use[0] - inputs)
        return int(fixed + (tide.safe_bytes - fixed) * batch_size / self.batch_size)
