"""The columns of a tide: its buffers, its curve, and what is known about the step as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.tide.kinds import KINDS
from lowtide.tide.owner import Owner
from lowtide.units import format_count

TEXT_COLUMNS = ("name", "op", "layer", "dtype", "shape", "source")
NUMBER_COLUMNS = {"kind": "uint8", "requested": "int64", "allocated": "int64", "born": "int32", "died": "int32"}


@dataclass(frozen=True, eq=False)
class Buffers:
    """Every allocation that is alive at some time of the step, one row each, as columns."""

    name: list[str]
    op: list[str]
    layer: list[str | None]
    kind: npt.NDArray[np.uint8]
    dtype: list[str]
    shape: list[tuple[int, ...] | None]
    requested: npt.NDArray[np.int64]
    allocated: npt.NDArray[np.int64]
    born: npt.NDArray[np.int32]
    died: npt.NDArray[np.int32]
    source: list[str | None]
    address: npt.NDArray[np.int64] | None = None
    """The address of each buffer, relative to the lowest one; only recordings have addresses."""

    def __len__(self) -> int:
        return len(self.name)

    def kind_of(self, row: int) -> str:
        """Return the name of a row's kind."""
        return KINDS[int(self.kind[row])]


@dataclass(frozen=True, eq=False)
class Curve:
    """The bytes in use after each event; position 0 is before the step."""

    bytes_in_use: npt.NDArray[np.int64]
    node: npt.NDArray[np.int32]
    """The node that caused each event, as a position in `nodes`."""
    nodes: list[str]

    def __len__(self) -> int:
        return len(self.bytes_in_use)


@dataclass(frozen=True)
class Building:
    """The size of the graph, and the host memory that building it took."""

    traced_nodes: int
    executed_nodes: int
    graph_bytes: int
    host_bytes: int | None


@dataclass(frozen=True)
class Unmodelled:
    """An op whose memory was estimated from its outputs alone."""

    op: str
    count: int
    bytes: int


@dataclass(frozen=True)
class StepPeak:
    """The high-water mark of one recorded step, counted from 1."""

    step: int
    peak_bytes: int


@dataclass(frozen=True)
class Recording:
    """Facts about a recorded step besides its events."""

    allocator: str
    limit_bytes: int | None
    step: int | None
    """Which step of the run this tide is, counted from 1; None if it is the whole script, which ran no step."""
    steps: tuple[StepPeak, ...]
    """Every step that was recorded."""
    fragmentation: float
    """The share of the free bytes that is outside the largest free block, at the peak."""
    process: ProcessMemory | None = None


@dataclass(frozen=True)
class ProcessMemory:
    """The memory of the script's whole process."""

    resident_bytes: int | None
    """The highest resident memory; None if the system does not report it."""
    allocator_bytes: int | None
    """The allocator's own peak, inside or outside of what was recorded; None if it keeps no statistics."""
    arrays: tuple[Owner, ...] = ()
    """The large NumPy arrays, at the moment when they were largest together."""


@dataclass(frozen=True, eq=False)
class OpTimes:
    """The duration of each op of a recorded step, as the median of several steps."""

    node: list[str]
    duration_us: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class TideColumns:
    """The data of a tide without the questions that can be asked about it."""

    target: str
    method: str
    batch_size: int | None
    peak_bytes: int
    safe_bytes: int
    buffers: Buffers
    curve: Curve
    building: Building
    unmodelled: tuple[Unmodelled, ...] = ()
    notes: tuple[str, ...] = ()
    recording: Recording | None = None
    times: OpTimes | None = None
    """Only recordings on a CPU have them."""
    highest_bytes: int | None = None
    """The highest peak of a predicted step, where it differs much from `peak_bytes`, the usual one."""

    def __post_init__(self) -> None:
        problem = _find_inconsistency(self)
        if problem is not None:
            raise LowtideError(f"a tide does not hold together: {problem}", given=self.target)

    @cached_property
    def peak_event(self) -> int:
        """The event after which the most bytes are in use."""
        return int(np.argmax(self.curve.bytes_in_use))


def _find_inconsistency(tide: TideColumns) -> str | None:
    """Return what is wrong with the columns of a tide, or None."""
    buffers, curve = tide.buffers, tide.curve
    rows, events = len(buffers.name), len(curve.bytes_in_use)
    for column in (*TEXT_COLUMNS, *NUMBER_COLUMNS):
        if len(getattr(buffers, column)) != rows:
            return f"its column {column} has {format_count(len(getattr(buffers, column)), 'row')}, not {rows}"
    if buffers.address is not None and len(buffers.address) != rows:
        return f"its column address has {format_count(len(buffers.address), 'row')}, not {rows}"
    if events == 0:
        return "its curve has no events"
    if len(curve.node) != events:
        return f"its curve has {events} events, and nodes for {len(curve.node)}"
    if events > 1 and not (0 <= int(curve.node[1:].min()) and int(curve.node[1:].max()) < len(curve.nodes)):
        return "its curve names nodes that do not exist"
    if rows and int(buffers.kind.max()) >= len(KINDS):
        return "it has unknown kinds"
    if rows and not (
        0 <= int(buffers.born.min()) and int(buffers.born.max()) < events and int(buffers.died.max()) <= events
    ):
        return "it has buffers outside of the step"
    if tide.times is not None and len(tide.times.node) != len(tide.times.duration_us):
        ops, times = len(tide.times.node), len(tide.times.duration_us)
        return f"it has {format_count(ops, 'op')} with times, and {format_count(times, 'time')}"
    return None
