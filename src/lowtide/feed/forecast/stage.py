"""A pipeline as stages: their elements and arguments, and TensorFlow's rewrites of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

AUTOTUNE = -1

# The overhead of a tensor, and of an element, in a buffer: measured on shuffle buffers of elements with one and with
# four tensors.
_TENSOR_EXTRA_BYTES = 132
_ELEMENT_EXTRA_BYTES = 68


@dataclass(frozen=True)
class Element:
    """An element that a stage produces."""

    content_bytes: int
    tensors: int = 1
    is_sampled: bool = False
    """Whether the size is that of samples, because shapes are unknown or tensors are texts."""
    shared_bytes: int = 0
    """The part that is a view of memory which another stage accounts for."""
    uncertain_share: float = 0.0
    """By how much elements may be larger, on average, than the samples: three standard errors."""

    @property
    def held_bytes(self) -> int:
        """The memory of one element in a buffer."""
        own = self.content_bytes - self.shared_bytes
        return own + self.tensors * _TENSOR_EXTRA_BYTES + _ELEMENT_EXTRA_BYTES


@dataclass(frozen=True)
class Stage:
    """One stage, its inputs, and the pipeline that it opens for each element."""

    kind: str
    """TensorFlow's name, without `Dataset` and version: Shuffle, ParallelMap."""
    element: Element
    inputs: tuple[Stage, ...] = ()
    inner: Stage | None = None
    count: int | None = None
    """The number of elements of an epoch; None if unknown."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Its arguments: buffer_size, batch_size, num_parallel_calls, cycle_length, block_length, size."""
    call_bytes: int = 0
    """The most memory that one call of its function takes, including inputs and outputs."""
    is_stateful: bool = False
    """Whether its function has state, so that TensorFlow does not run its calls in parallel."""
    constant_bytes: int = 0
    """The size of the tensors that it was made from."""
    captured_bytes: int = 0
    """The size of the tensors that its function captures."""
    baked_bytes: int = 0
    """The size of the constants in the graph of its function."""
    reader_bytes: int = 0
    """The buffer of an open file."""
    note: str | None = None
    """What the forecast does not know about it."""

    @property
    def source(self) -> Stage:
        """The first input."""
        return self.inputs[0]

    def walk(self) -> Iterator[Stage]:
        """Yield this stage and its inputs, recursively, without inner pipelines."""
        yield self
        for each in self.inputs:
            yield from each.walk()


@dataclass(frozen=True)
class Rewriting:
    """The rewrites that TensorFlow may apply to a pipeline before it runs, according to its options."""

    fuses: bool = True
    """A map and the batch after it become one stage."""
    parallelizes: bool = True
    """A map becomes a parallel one."""
    prefetches: bool = True
    """A prefetch is added after the last stage, unless that already produces elements ahead."""


# Kinds that produce elements in a separate thread before they are requested.
WORKS_AHEAD = {"Prefetch", "ParallelMap", "MapAndBatch", "ParallelInterleave", "ParallelBatch"}


def rewrite(stage: Stage, rewriting: Rewriting) -> Stage:
    """Apply the rewrites, and return the pipeline that will run."""
    done = _rewrite_all(stage, rewriting)
    if rewriting.prefetches and done.kind not in WORKS_AHEAD:
        numbers = {"buffer_size": AUTOTUNE, "is_injected": 1}
        return Stage("Prefetch", done.element, (done,), count=done.count, numbers=numbers)
    return done


def _rewrite_all(stage: Stage, rewriting: Rewriting) -> Stage:
    # TensorFlow does not rewrite inner pipelines.
    done = replace(stage, inputs=tuple(_rewrite_all(each, rewriting) for each in stage.inputs))
    if done.kind == "Options":
        return done.source
    if done.kind == "Map" and rewriting.parallelizes and not done.is_stateful:
        done = replace(done, kind="ParallelMap", numbers={**done.numbers, "num_parallel_calls": AUTOTUNE})
    if done.kind == "Batch" and rewriting.fuses and done.source.kind in ("Map", "ParallelMap"):
        mapped = done.source
        numbers = {"num_parallel_calls": 1, **mapped.numbers, **done.numbers}
        return replace(mapped, kind="MapAndBatch", element=done.element, count=done.count, numbers=numbers)
    return done
