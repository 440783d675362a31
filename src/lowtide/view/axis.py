"""The axes of charts, the order in which kinds of memory are stacked, and colours; shared by all views."""

import numpy as np
import numpy.typing as npt

from lowtide.tide.explain import bytes_by_kind
from lowtide.tide.kinds import COLOURS as COLOURS
from lowtide.tide.kinds import KINDS, OUTSIDE, SLACK
from lowtide.tide.tide import Tide

# From the bottom up: what lives for the whole training, then what is allocated and freed within a step. Slack is in
# between, so that the upper edge of the stack shows requested bytes.
STACK = (OUTSIDE, "weights", "optimizer", "constants", "input", SLACK, "activations", "gradients", "workspace", "other")

BUDGET_COLOUR = "#e5484d"
BEFORE_COLOUR, AFTER_COLOUR = COLOURS["gradients"], COLOURS["activations"]

_STACK_ROWS = [(*KINDS, SLACK).index(kind) for kind in STACK]


def stack_at(tide: Tide, events: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return bytes[kind, event] at the given events, the kinds in the order of STACK."""
    stack: npt.NDArray[np.int64] = bytes_by_kind(tide)[:, events][_STACK_ROWS]
    return stack


def axis_top(peak_bytes: int, safe_bytes: int, budget_bytes: int | None) -> int:
    """Return the end of the axis of bytes: above the safe bound, and above the budget unless that is much higher."""
    top = max(peak_bytes, safe_bytes, 1)
    if budget_bytes is not None and budget_bytes <= 1.8 * top:
        top = max(top, budget_bytes)
    return int(top * 1.08) + 1


def ticks(top_bytes: int, at_most: int) -> list[int]:
    """Return amounts from 0 to `top_bytes` for an axis, a power of two apart so that they read as round."""
    step = 1
    while top_bytes // step + 1 > max(at_most, 2):
        step *= 2
    return list(range(0, top_bytes + 1, step))
