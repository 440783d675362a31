"""A cache of tides and plans that were read from files, and of which node of a graph makes each tensor."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.tide_overlay import TideOverlay, find_tensor_nodes
from lowtide.planning.plan import Plan
from lowtide.tide.tide import Tide
from lowtide.view.page_data.plan import plan_data
from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.plan import PlanReport
from lowtide.view.reports.tide import TideReport
from lowtide.view.server.library import File

_MOST_KEPT = 6
_MOST_TENSORS = 20

_Value = TypeVar("_Value")


class TideCache:
    """The tides, plans and page data that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def tide_page(self, file: File, tensor: str | None) -> dict[str, Any]:
        """Return the data that the page draws of a tide."""
        tide = self.tide(file)
        return self._cached(("page", file.number, file.stamp, tensor), lambda: tide_data(TideReport(tide), tensor))

    def plan_page(self, file: File) -> dict[str, Any]:
        """Return the data that the page draws of a plan."""
        return self._cached(
            ("plan", file.number, file.stamp),
            lambda: plan_data(PlanReport(Plan.load(file.path), file=file.path.name)),
        )

    def tide(self, file: File) -> Tide:
        """Return the tide in a file."""
        return self._cached(("tide", file.number, file.stamp), lambda: Tide.load(file.path))

    def values(self, atlas: Atlas, file: File, colour: str) -> TideOverlay:
        """Return the values by which a tide colours the nodes of a graph."""
        tide = self.tide(file)
        key = ("values", atlas.folder, file.number, file.stamp, colour)
        return self._cached(key, lambda: TideOverlay(atlas, tide, colour))

    def node_tensors(self, atlas: Atlas, file: File, node: int) -> dict[str, Any] | None:
        """Return the tensors of a node in a tide; None if there are none."""
        tide = self.tide(file)
        key = ("tensors", atlas.folder, file.number, file.stamp)
        return self._cached(key, lambda: _NodeTensors(atlas, tide)).of(node)

    def _cached(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        # One at a time: two requests for the same file would read it twice.
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            self._kept.move_to_end(key)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            value: _Value = self._kept[key]
            return value


class _NodeTensors:
    """The buffers of a tide, by the node of a graph that makes them."""

    def __init__(self, atlas: Atlas, tide: Tide) -> None:
        self._tide = tide
        self._rows: dict[int, list[int]] = {}
        for row, node in enumerate(find_tensor_nodes(atlas, tide.buffers.name)):
            if node is not None:
                self._rows.setdefault(node, []).append(row)

    def of(self, node: int) -> dict[str, Any] | None:
        buffers, peak = self._tide.buffers, self._tide.peak_event
        rows = sorted(self._rows.get(node, ()), key=lambda row: -int(buffers.allocated[row]))
        if not rows:
            return None
        tensors = [
            {
                "name": buffers.name[row],
                "bytes": int(buffers.allocated[row]),
                "kind": buffers.kind_of(row),
                "born": int(buffers.born[row]),
                "died": int(buffers.died[row]),
                "at_peak": bool(buffers.born[row] <= peak < buffers.died[row]),
            }
            for row in rows
        ]
        return {
            "bytes": sum(tensor["bytes"] for tensor in tensors),
            "bytes_at_peak": sum(tensor["bytes"] for tensor in tensors if tensor["at_peak"]),
            "tensor_count": len(tensors),
            "tensors": tensors[:_MOST_TENSORS],
        }
