"""The memory of each stage of a pipeline when all buffers are full, according to TensorFlow's kernels.

The stages are summed although they may not peak at the same time: they run in separate threads, and memory that one
thread has freed is not always available to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lowtide.feed.forecast.allocators import RETURNED_BYTES
from lowtide.feed.forecast.stage import AUTOTUNE, Element, Stage

# An autotuned prefetch starts with one element and doubles whenever it was full and then empty: it holds one element
# while training is slower than its data, and eight or more while it is faster.
AUTOTUNED_AHEAD = 2
AUTOTUNED_AHEAD_AT_MOST = 16
# The limit of the batches that a fused map and batch produces at a time.
_MOST_BATCHES = 16
# A parallel interleave opens in advance this multiple of its cycle length.
_OPENED_AHEAD = 2
# A constant in the graph of a function is copied to its definition, the library, the optimized graph and its
# kernels: it is in memory 9 times while the pipeline runs, and 19 times while it starts (measured from 8 to 200 MiB).
BAKED_TIMES, BAKED_TIMES_AT_START = 9, 19
# TensorFlow's pipeline has a second copy of the tensors that a dataset is made from, and of captured tensors a third
# one while it starts.
CONSTANT_TIMES, CAPTURED_TIMES_AT_START = 2, 3


@dataclass(frozen=True)
class Holding:
    """The memory of one stage at the peak."""

    stage: Stage
    depth: int
    """The number of stages between it and the consumer of the batches."""
    held_bytes: int
    """The size of its buffers."""
    held_elements: int
    working_bytes: int
    """The additional memory while it produces an element."""
    times: int = 1
    """The number of instances, if several pipelines of an interleave are open."""
    threads: int = 1
    """The number of threads that allocate its elements."""

    @property
    def most_bytes(self) -> int:
        """The total memory at the worst moment: a batch is copied while the one before is still in use."""
        is_large = self.stage.element.content_bytes >= RETURNED_BYTES
        return self.bytes + (self.stage.element.content_bytes if self.stage.kind in _COPYING and is_large else 0)

    @property
    def bytes(self) -> int:
        """The total memory."""
        return self.held_bytes + self.working_bytes

    @property
    def name(self) -> str:
        """The name of the stage, with the argument that determines its memory."""
        return stage_name(self.stage) + (f" × {self.times:,}" if self.times > 1 else "")


def hold(stage: Stage, processors: int, depth: int = 0) -> list[Holding]:
    """The memory of each stage of a pipeline, last stage first."""
    held, elements, working = _RULES.get(stage.kind, _unbuffered)(stage, processors)
    constants = CONSTANT_TIMES * (stage.constant_bytes + stage.captured_bytes) + BAKED_TIMES * stage.baked_bytes
    threads = min(_calls(stage, processors), processors) if stage.kind in _PARALLEL else 1
    found = [Holding(stage, depth, held + constants + stage.reader_bytes, elements, working, threads=threads)]
    if stage.inner is not None:
        times = _opened(stage)
        # The buffers of all open pipelines are full; at most one per processor is producing an element.
        found += [_repeated(each, times, min(times, processors)) for each in hold(stage.inner, processors, depth + 1)]
    inputs = [hold(each, processors, depth + 1) for each in stage.inputs]
    if stage.kind == "Concatenate":
        # Inputs are read one after the other: only the largest one counts.
        largest = max(range(len(inputs)), key=lambda which: sum(each.bytes for each in inputs[which]))
        inputs = [each if which == largest else list(map(_freed, each)) for which, each in enumerate(inputs)]
    return found + [each for some in inputs for each in some]


def _repeated(one: Holding, times: int, working: int) -> Holding:
    return replace(
        one,
        held_bytes=one.held_bytes * times,
        held_elements=one.held_elements * times,
        working_bytes=one.working_bytes * working,
        times=one.times * times,
    )


def _freed(one: Holding) -> Holding:
    return replace(one, held_bytes=0, held_elements=0, working_bytes=0)


Amount = tuple[int, int, int]
"""Bytes in buffers, elements in buffers, and bytes for producing an element."""


def _unbuffered(stage: Stage, processors: int) -> Amount:
    """A stage without a buffer."""
    return 0, 0, stage.call_bytes


def _buffer(count: int, element: Element, working: int = 0) -> Amount:
    return count * element.held_bytes, count, working


def _shuffle(stage: Stage, processors: int) -> Amount:
    return _buffer(_at_most(_number(stage, "buffer_size"), stage.source.count), stage.source.element)


def _cache(stage: Stage, processors: int) -> Amount:
    if stage.numbers.get("is_file") or stage.source.count is None:
        return 0, 0, 0
    return _buffer(stage.source.count, stage.source.element)


def _prefetch(stage: Stage, processors: int) -> Amount:
    wanted = _number(stage, "buffer_size")
    return _buffer(_at_most(AUTOTUNED_AHEAD if wanted == AUTOTUNE else wanted, stage.source.count), stage.element)


def _parallel_map(stage: Stage, processors: int) -> Amount:
    calls = _calls(stage, processors)
    beside = max(stage.call_bytes - stage.element.content_bytes, 0)
    return _buffer(_at_most(calls, stage.count), stage.element, min(calls, processors) * beside)


def _map_and_batch(stage: Stage, processors: int) -> Amount:
    calls = _calls(stage, processors)
    # The batches that the calls are for, one that is ready, and one that is handed over.
    batches = min(-(-calls // _number(stage, "batch_size")) + 1, _MOST_BATCHES) + 1
    return _buffer(_at_most(batches, stage.count), stage.element, min(calls, processors) * stage.call_bytes)


def _batch(stage: Stage, processors: int) -> Amount:
    # The elements of a batch are gathered and then copied. A large batch reuses the memory of the one before.
    gathered = _at_most(_number(stage, "batch_size"), stage.source.count) * stage.source.element.held_bytes
    is_large = stage.element.content_bytes >= RETURNED_BYTES
    return 0, 0, gathered + (0 if is_large else stage.element.content_bytes)


def _parallel_batch(stage: Stage, processors: int) -> Amount:
    _, _, working = _batch(stage, processors)
    return _buffer(_at_most(_calls(stage, processors), stage.count), stage.element, working)


def _parallel_interleave(stage: Stage, processors: int) -> Amount:
    each = stage.numbers.get("buffer_output_elements", AUTOTUNE)
    each = 2 * _number(stage, "block_length") + 1 if each == AUTOTUNE else each
    if stage.inner is not None:
        each = _at_most(each, stage.inner.count)
    return _buffer(_opened(stage) * each, stage.element)


def _window(stage: Stage, processors: int) -> Amount:
    return _buffer(_at_most(_number(stage, "size"), stage.source.count), stage.source.element)


def _unbatch(stage: Stage, processors: int) -> Amount:
    return _buffer(1, stage.source.element)


def _rebatch(stage: Stage, processors: int) -> Amount:
    return _buffer(1, stage.source.element, stage.element.content_bytes)


def _generator(stage: Stage, processors: int) -> Amount:
    # The Python object, and its copy as a tensor.
    return 0, 0, 2 * stage.element.content_bytes


def _reader(stage: Stage, processors: int) -> Amount:
    return 0, 0, stage.element.content_bytes


# The kinds that gather elements and then copy them.
_COPYING = {"Batch", "PaddedBatch", "DenseToSparseBatch", "ParallelBatch"}

# The kinds whose elements are made by several threads.
_PARALLEL = {"ParallelMap", "MapAndBatch", "ParallelBatch"}

_RULES: dict[str, Callable[[Stage, int], Amount]] = {
    "Shuffle": _shuffle,
    "ShuffleAndRepeat": _shuffle,
    "Cache": _cache,
    "Prefetch": _prefetch,
    "ParallelMap": _parallel_map,
    "MapAndBatch": _map_and_batch,
    "Batch": _batch,
    "PaddedBatch": _batch,
    "Rebatch": _rebatch,
    "DenseToSparseBatch": _batch,
    "ParallelBatch": _parallel_batch,
    "ParallelInterleave": _parallel_interleave,
    "Window": _window,
    "GroupByWindow": _window,
    "Unbatch": _unbatch,
    "Generator": _generator,
    "TFRecord": _reader,
    "TextLine": _reader,
    "FixedLengthRecord": _reader,
}


def _number(stage: Stage, name: str) -> int:
    """An argument of a stage; 1 if it is known only when the stage runs."""
    return stage.numbers.get(name, 1)


def _calls(stage: Stage, processors: int) -> int:
    calls = _number(stage, "num_parallel_calls")
    return processors if calls == AUTOTUNE else calls


def _opened(stage: Stage) -> int:
    """The number of pipelines that are open at a time."""
    cycle = _number(stage, "cycle_length")
    if stage.kind == "ParallelInterleave":
        ahead = stage.numbers.get("prefetch_input_elements", AUTOTUNE)
        cycle += _OPENED_AHEAD * cycle if ahead == AUTOTUNE else ahead
    return max(_at_most(cycle, stage.source.count), 1)


def _at_most(wanted: int, available: int | None) -> int:
    return wanted if available is None else min(wanted, available)


_SHOWN = ("buffer_size", "batch_size", "size", "cycle_length")


def stage_name(stage: Stage) -> str:
    """The kind of a stage, with the argument that determines its memory."""
    numbers = [stage.numbers[name] for name in _SHOWN if name in stage.numbers][:1]
    argument = "".join("(AUTOTUNE)" if number == AUTOTUNE else f"({number:,})" for number in numbers)
    return f"{stage.kind}{argument}" + (", added by TensorFlow" if stage.numbers.get("is_injected") else "")
