"""Reduces a long curve to a few points without losing its maxima."""

import numpy as np
import numpy.typing as npt


def sample_events(values: npt.NDArray[np.int64], limit: int) -> npt.NDArray[np.intp]:
    """Return at most `limit` positions of `values`, in order: the lowest and highest of each stretch, and both ends.

    The first of the highest values is always among them.
    """
    count = len(values)
    if count <= limit:
        return np.arange(count)
    # Two points for each stretch, and the two ends.
    edges = stretches(count, max(1, (limit - 2) // 2))
    highest = highest_in(values, edges)
    lowest = highest_in(-values, edges)
    return np.unique(np.concatenate([[0], highest, lowest, [count - 1]]))


def stretches(count: int, pieces: int) -> npt.NDArray[np.intp]:
    """Return the `pieces` + 1 edges that cut `count` positions into stretches of nearly equal length."""
    return np.linspace(0, count, pieces + 1).astype(np.intp)


def highest_in(values: npt.NDArray[np.int64], edges: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the position of the first highest value of each stretch; an empty stretch uses its left edge."""
    last = len(values) - 1
    return np.array(
        [
            start + int(np.argmax(values[start:stop])) if stop > start else min(start, last)
            for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ],
        dtype=np.intp,
    )
