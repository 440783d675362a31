"""A pipeline as stages: what each gives, how many, and the numbers that it was made with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

AUTOTUNE = -1

# What TensorFlow and the C library keep beside the bytes of a tensor, and beside those of an element: measured on
# shuffle buffers of elements with one and with four tensors.
_TENSOR_EXTRA_BYTES = 132
_ELEMENT_EXTRA_BYTES = 68


@dataclass(frozen=True)
class Element:
    """What a stage gives at a time."""

    content_bytes: int
    tensors: int = 1
    is_sampled: bool = False
    """Whether some were looked at, because their shapes are not known or they are texts."""
    shared_bytes: int = 0
    """What of it is a view of memory that is counted elsewhere."""

    @property
    def held_bytes(self) -> int:
        """What one takes while a buffer has it."""
        own = self.content_bytes - self.shared_bytes
        return own + self.tensors * _TENSOR_EXTRA_BYTES + _ELEMENT_EXTRA_BYTES


@dataclass(frozen=True)
class Stage:
    """One stage, the stages that it takes from, and the pipeline that it opens for each element."""

    kind: str
    """As TensorFlow calls it, without Dataset and version: Shuffle, ParallelMap."""
    element: Element
    inputs: tuple[Stage, ...] = ()
    inner: Stage | None = None
    count: int | None = None
    """How many elements an epoch has; None if nobody knows."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """What it was made with: buffer_size, batch_size, num_parallel_calls, cycle_length, block_length, size."""
    call_bytes: int = 0
    """The most that one call of its function takes, with what it is given and what it gives."""
    is_stateful: bool = False
    """Whether its function must run as often and in the order that was written."""
    constant_bytes: int = 0
    """Tensors that it was made from."""
    captured_bytes: int = 0
    """Tensors from outside that its function uses."""
    baked_bytes: int = 0
    """Constants within the graph of its function."""
    reader_bytes: int = 0
    """The buffer of an open file."""
    note: str | None = None
    """What is not known of it."""

    @property
    def source(self) -> Stage:
        """The stage that it takes from."""
        return self.inputs[0]

    def with_source(self, source: Stage) -> Stage:
        """The same over another stage."""
        return replace(self, inputs=(source, *self.inputs[1:]))

    def walk(self) -> Iterator[Stage]:
        """It and all before it, without those that are opened for an element."""
        yield self
        for each in self.inputs:
            yield from each.walk()


@dataclass(frozen=True)
class Rewriting:
    """What TensorFlow may make of a pipeline before it runs, as the options of a dataset say."""

    fuses: bool = True
    """A map and the batch behind it become one stage."""
    parallelizes: bool = True
    """A map becomes a parallel one."""
    prefetches: bool = True
    """Behind the last stage stands a prefetch, unless that one works ahead by itself."""


# These have a thread of their own, and elements that are ready.
WORKS_AHEAD = {"Prefetch", "ParallelMap", "MapAndBatch", "ParallelInterleave", "ParallelBatch"}


def rewrite(stage: Stage, rewriting: Rewriting) -> Stage:
    """The pipeline that will run."""
    done = _rewrite_all(stage, rewriting)
    if rewriting.prefetches and done.kind not in WORKS_AHEAD:
        numbers = {"buffer_size": AUTOTUNE, "is_injected": 1}
        return Stage("Prefetch", done.element, (done,), count=done.count, numbers=numbers)
    return done


def _rewrite_all(stage: Stage, rewriting: Rewriting) -> Stage:
    # Pipelines that are opened for an element run as they were written.
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
