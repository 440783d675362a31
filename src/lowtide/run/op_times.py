"""The durations of the ops of a recorded step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from lowtide.run.chunks import Stretch
from lowtide.tide.columns import OpTimes


def op_times(stretch: Stretch, steps: Collection[int]) -> OpTimes | None:
    """Return the median time of each node over these steps; None if the profile has no kernel times.

    Nodes that run at the same time share it, as they share the cores, so that together they take as long as the step.
    A node in a loop counts with all its iterations. If two calls of a step have nodes of the same name, the time is
    that of the function which takes longest.
    """
    # Work on a GPU continues after its kernel launch has returned.
    if not len(stretch.kernels) or "GPU" in stretch.events.allocator[0]:
        return None
    # The first step runs with cold caches and memory.
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
    """Return the time of each node between two moments, in microseconds."""
    kernels = stretch.kernels
    inside = (begin <= kernels.time_ps) & (kernels.time_ps < end)
    taken = np.zeros(len(kernels.names))
    shares = _shares(kernels.time_ps[inside], kernels.time_ps[inside] + kernels.duration_ps[inside])
    np.add.at(taken, kernels.name[inside], shares / 1e6)
    return taken


def _shares(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the share of each interval: intervals that overlap share the time equally."""
    moments = np.concatenate([begins, ends])
    order = np.argsort(moments, kind="stable")
    running = np.cumsum(np.where(order < len(begins), 1, -1))
    parts = np.diff(moments[order], prepend=0) / np.maximum(np.concatenate([[1], running[:-1]]), 1)
    passed = np.empty(len(moments))
    passed[order] = np.cumsum(parts)
    return passed[len(begins) :] - passed[: len(begins)]
