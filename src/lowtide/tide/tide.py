"""A tide: the memory of one step over time, predicted or recorded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from lowtide.errors import LowtideError
from lowtide.tide import explain, notebook, storage
from lowtide.tide.downsample import sample_events
from lowtide.tide.kinds import KINDS
from lowtide.units import format_bytes, parse_bytes

JSON_SCHEMA_VERSION = 1

METHODS = {
    "simulated": "op by op simulation of TensorFlow's executor and BFC allocator",
    "xla": "the buffer assignment of the module that XLA compiled",
    "recorded": "recorded from TensorFlow's allocator while the step ran",
}


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
    """Where each buffer lies, from the lowest address on; only a record knows it."""

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
    nodes: list[str]

    def __len__(self) -> int:
        return len(self.bytes_in_use)


@dataclass(frozen=True)
class Building:
    """What building the graph took, apart from executing it."""

    traced_nodes: int
    executed_nodes: int
    graph_bytes: int
    host_bytes: int | None


@dataclass(frozen=True)
class Unmodelled:
    """An op whose memory was sized from its outputs alone."""

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
    """What is known of a recorded step beside its events."""

    allocator: str
    limit_bytes: int | None
    step: int
    """Which step of the run this tide is, counted from 1."""
    steps: tuple[StepPeak, ...]
    """Every step that was recorded."""
    fragmentation: float
    """At the peak: the share of the free bytes that lies outside the largest free block."""


@dataclass(frozen=True, eq=False)
class OpTimes:
    """What of a recorded step's time the ops took, each the middle of several steps."""

    node: list[str]
    duration_us: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class Tide:
    """The memory of one training step over time.

    `peak_bytes` is the expected high-water mark of the allocator; a hard limit of `safe_bytes` does not run out.
    """

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
    """Only a recording on a CPU knows them."""

    def __post_init__(self) -> None:
        problem = storage.find_inconsistency(self)
        if problem is not None:
            raise LowtideError(f"a tide does not hold together: {problem}", given=self.target)

    @cached_property
    def peak_event(self) -> int:
        """The event after which the most bytes are in use."""
        return int(np.argmax(self.curve.bytes_in_use))

    @cached_property
    def peak_place(self) -> explain.Place:
        """Where in the program the peak is: node, op, layer, and whether it is in the backward pass."""
        return explain.place_at(self, self.peak_event)

    @property
    def peak_node(self) -> str | None:
        """The node that runs when the peak is reached; None when nothing exceeds what is there before the step."""
        return self.peak_place.node

    @property
    def alive_at_peak(self) -> int:
        """How many buffers are alive at the peak."""
        return len(explain.alive_at(self, self.peak_event))

    def fits(self, budget: str | float | SupportsIndex) -> bool:
        """Whether a hard limit of `budget` ("8GiB", or bytes) is sure to be enough."""
        return self.safe_bytes <= parse_bytes(budget)

    def breakdown(self) -> dict[str, int]:
        """Return the bytes that each kind asked for at the peak, and the allocator's "slack" on top of them."""
        return explain.breakdown_at(self, self.peak_event)

    def top(self, count: int = 10) -> tuple[explain.HeldTensor, ...]:
        """Return the `count` tensors that hold most at the peak, largest first."""
        return explain.held_tensors(self, explain.alive_at(self, self.peak_event)[:count])

    def by_layer(self) -> tuple[explain.LayerShare, ...]:
        """Return what each layer holds at the peak, largest first."""
        return explain.layers_at(self, self.peak_event)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tide to one file, which `Tide.load` and `lowtide explain` read without TensorFlow."""
        storage.save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Tide:
        """Read a tide that `save` wrote."""
        return storage.load(path)

    def to_dict(self, *, top: int = 10, points: int = 400) -> dict[str, Any]:
        """Return what a reader of the report needs as plain data, with a `schema_version`."""
        events = sample_events(self.curve.bytes_in_use, points)
        place = self.peak_place
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "method": self.method,
            "batch_size": self.batch_size,
            "peak_bytes": self.peak_bytes,
            "safe_bytes": self.safe_bytes,
            "peak": {**asdict(place), "description": str(place)},
            "breakdown": self.breakdown(),
            "top": [asdict(tensor) for tensor in self.top(top)],
            "by_layer": [asdict(share) for share in self.by_layer()],
            "curve": {
                "events": len(self.curve),
                "event": events.tolist(),
                "bytes_in_use": self.curve.bytes_in_use[events].tolist(),
            },
            "building": asdict(self.building),
            "unmodelled": [asdict(op) for op in self.unmodelled],
            "notes": list(self.notes),
            "recording": None if self.recording is None else asdict(self.recording),
        }

    def to_json(self, *, top: int = 10, points: int = 400, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(top=top, points=points), indent=indent)

    def __repr__(self) -> str:
        batch = "" if self.batch_size is None else f", batch {self.batch_size}"
        return (
            f"<Tide of {self.target}{batch}: peak {format_bytes(self.peak_bytes)}, "
            f"safe {format_bytes(self.safe_bytes)}, {self.method}>"
        )

    def _repr_html_(self) -> str:
        return notebook.render(self)
