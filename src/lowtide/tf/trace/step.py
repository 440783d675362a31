"""A traced step, whose memory can be predicted at any batch size: what all kinds of steps have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import keras

from lowtide.program.graph import Shape
from lowtide.progress import ProgressCallback
from lowtide.tf.trace import keras_models as models
from lowtide.tide.tide import Tide


@dataclass(frozen=True)
class StepMetadata:
    """The layers and variables of a step, as Keras knows them."""

    layers: frozenset[str]
    kinds: Mapping[int, tuple[str, str]]
    """Kind and name of each variable, by the identity of its handle."""
    untouched: Sequence[tuple[str, str, int, tuple[int, ...]]] = ()
    """Variables of the model that the step does not use: kind, name, dtype, shape."""
    steps_per_call: int = 1
    """How many training steps one call runs."""
    held_bytes: int = 0
    """The bytes of this process that the step's budget has to hold; 0 if they are unknown."""


def collect_metadata(concrete: Any, model: keras.Model | None, owners: list[Any]) -> StepMetadata:
    """Collect what Keras knows about the variables of a traced function; `owners` are layers and optimizers."""
    return StepMetadata(
        models.layer_names(owners),
        models.variable_kinds(owners, concrete.graph.variables),
        models.untouched_variables(concrete, model),
        models.steps_per_call(model),
    )


class Step(Protocol):
    """A traced step. `SimulatedStep` and `CompiledStep` implement it."""

    seconds: dict[str, float]
    rescales: bool
    """Whether the step may be predicted at other batch sizes than the one it was traced for."""
    metadata: StepMetadata

    @property
    def concrete(self) -> Any: ...

    @property
    def argument_shapes(self) -> list[Shape | None]: ...

    @property
    def batch_size(self) -> int | None: ...

    def with_body(self, concrete: Any, progress: ProgressCallback | None, budget_bytes: int | None) -> Step: ...

    def tide(self, batch_size: int | None, progress: ProgressCallback | None, label: str | None) -> Tide: ...

    def safe_bytes(self, batch_size: int) -> int: ...

    def rescales_to(self, batch_size: int) -> bool: ...
