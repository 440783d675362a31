"""How long the ops of a recorded step took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from lowtide.run.chunks import Stretch
from lowtide.tide.columns import OpTimes


def op_times(stretch: Stretch, steps: Collection[int]) -> OpTimes | None:
    """The middle time of each node over these steps of a stretch; None where nobody timed them.

    Nodes that run at the same moment share it, as they share the cores: together they take as long as the step. A node
    in a loop counts with all its rounds. Where a step is several calls, and two of them have nodes of the same
    name, it is that of the function which takes longest.
    """
    # What a GPU computes runs on after its kernel has returned.
    if not len(stretch.kernels) or "GPU" in stretch.events.allocator[0]:
        return None
    # The very first step finds caches and memory cold.
    settled = set(steps) - {1} or set(steps)
    rounds: defaultdict[str, list[npt.NDArray[np.float64]]] = defaultdict(list)
    for call in stretch.window.calls:
        begin, end = stretch.moments.get(call.begin_mark), stretch.moments.get(call.end_mark)
        if call.step in settled and begin is not None and end is not None:
            rounds[call.function].append(_times_us(stretch, begin, end))
    middle = sorted((np.median(each, axis=0) for each in rounds.values()), key=lambda each: float(each.sum()))
    durations = np.zeros(len(stretch.kernels.names))
    for each in middle:
        durations = np.where(each > 0, each, durations)
    kept = np.flatnonzero(durations)
    return OpTimes([stretch.kernels.names[row] for row in kept], durations[kept].astype(np.float32))


def _times_us(stretch: Stretch, begin: int, end: int) -> npt.NDArray[np.float64]:
    """The time of each node between two moments."""
    kernels = stretch.kernels
    inside = (begin <= kernels.time_ps) & (kernels.time_ps < end)
    taken = np.zeros(len(kernels.names))
    shares = _shares(kernels.time_ps[inside], kernels.time_ps[inside] + kernels.duration_ps[inside])
    np.add.at(taken, kernels.name[inside], shares / 1e6)
    return taken


def _shares(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """How much of the time is each one's, where those that run together have equal parts of it."""
    moments = np.concatenate([begins, ends])
    order = np.argsort(moments, kind="stable")
    running = np.cumsum(np.where(order < len(begins), 1, -1))
    parts = np.diff(moments[order], prepend=0) / np.maximum(np.concatenate([[1], running[:-1]]), 1)
    passed = np.empty(len(moments))
    passed[order] = np.cumsum(parts)
    return passed[len(begins) :] - passed[: len(begins)]
