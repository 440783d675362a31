"""A tide: the memory of one step over time, predicted or recorded."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from os import PathLike
from typing import Any, SupportsIndex

from lowtide.tide import explain, notebook, storage
from lowtide.tide.columns import TideColumns
from lowtide.tide.downsample import sample_events
from lowtide.tide.kinds import OUTSIDE
from lowtide.tide.owner import Owner
from lowtide.units import format_bytes, parse_bytes

JSON_SCHEMA_VERSION = 1

METHODS = {
    "simulated": "op by op simulation of TensorFlow's executor and BFC allocator",
    "xla": "the buffer assignment of the module that XLA compiled",
    "recorded": "recorded from TensorFlow's allocator while the step ran",
}


class Tide(TideColumns):
    """The memory of one training step over time.

    `peak_bytes` is the expected high-water mark of the allocator; a step under a hard limit of `safe_bytes` does not
    run out of memory. Where a program with loops has steps of very different peaks, `peak_bytes` is the usual one and
    `highest_bytes` the highest; otherwise `highest_bytes` is None.
    """

    @cached_property
    def peak_place(self) -> explain.ProgramPoint:
        """The position of the peak in the program: node, op, layer, and whether it is in the backward pass."""
        return explain.point_at(self, self.peak_event)

    @property
    def peak_node(self) -> str | None:
        """The node that runs when the peak is reached; None if the peak is before the step."""
        return self.peak_place.node

    @property
    def alive_at_peak(self) -> int:
        """The number of buffers that are alive at the peak."""
        return len(explain.alive_at(self, self.peak_event))

    def fits(self, budget: str | float | SupportsIndex) -> bool:
        """Whether a hard limit of `budget` ("8GiB", or bytes) is guaranteed to be enough."""
        return self.safe_bytes <= parse_bytes(budget)

    def breakdown(self) -> dict[str, int]:
        """Return the bytes that each kind requested at the peak, and the allocator's "slack" on top of them."""
        return explain.breakdown_at(self, self.peak_event)

    def top(self, count: int = 10) -> tuple[Owner, ...]:
        """Return the `count` largest tensors at the peak, largest first."""
        return explain.owners_of(self, explain.alive_at(self, self.peak_event)[:count])

    @cached_property
    def held_outside(self) -> tuple[Owner, ...]:
        """What the peak of a recorded step includes though it is not the step's, such as whole data; largest first."""
        owners = explain.owners_of(self, explain.alive_at(self, self.peak_event))
        return tuple(owner for owner in owners if owner.kind == OUTSIDE)

    @property
    def step_bytes(self) -> int:
        """The peak without what is held outside of the step, which is the same at each event of the step."""
        return self.peak_bytes - sum(owner.bytes for owner in self.held_outside)

    def by_layer(self) -> tuple[explain.LayerShare, ...]:
        """Return what each layer holds at the peak, largest first."""
        return explain.layers_at(self, self.peak_event)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tide to one file, which `Tide.load` and `lowtide explain` read without TensorFlow."""
        storage.save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Tide:
        """Read a tide that `save` wrote."""
        return storage.load(path, Tide)

    def to_dict(self, *, top: int = 10, points: int = 400) -> dict[str, Any]:
        """Return the report as plain data, with a `schema_version`."""
        events = sample_events(self.curve.bytes_in_use, points)
        place = self.peak_place
        return {
            "schema_version": JSON_SCHEMA_VERSION,
            "target": self.target,
            "method": self.method,
            "batch_size": self.batch_size,
            "peak_bytes": self.peak_bytes,
            "safe_bytes": self.safe_bytes,
            "highest_bytes": self.highest_bytes,
            "step_bytes": self.step_bytes,
            "held_outside": [tensor.to_dict() for tensor in self.held_outside[:top]],
            "peak": {**asdict(place), "description": str(place)},
            "breakdown": self.breakdown(),
            "top": [tensor.to_dict() for tensor in self.top(top)],
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
