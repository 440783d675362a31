"""lt.graph(path): a graph of any size in Python, to be cut down step by step and exported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.atlas.cuts import selection as choose
from lowtide.atlas.cuts import stats
from lowtide.atlas.cuts.collapse import collapse
from lowtide.atlas.cuts.cut import Box, Cut, whole_graph
from lowtide.atlas.exports.files import write
from lowtide.atlas.graph_file import open_graph
from lowtide.progress import ProgressCallback
from lowtide.units import format_count

if TYPE_CHECKING:
    import networkx
    import rustworkx


def graph(
    path: str | os.PathLike[str], graph: str | int | None = None, progress: ProgressCallback | None = None
) -> Subgraph:
    """Open the graph of an event file, a SavedModel, a .pb, .pbtxt, .meta or .keras file, without TensorFlow.

    `graph` is the label or the number of one, where there are several. `progress` is called with a
    `lowtide.progress.Progress` while the index is built.
    """
    opened = open_graph(Path(path), graph, progress)
    return Subgraph(whole_graph(opened.atlas), opened.notes)


@dataclass(frozen=True)
class Subgraph:
    """A graph or a selection of its nodes; every method that selects returns a new Subgraph."""

    cut: Cut
    file_notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cut)

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems in the file, and what the selections left out."""
        return self.file_notes + self.cut.notes

    def sample(self, every: int) -> Subgraph:
        """Every Nth node of each kind, connected through the nodes left out."""
        return self._with(choose.sample(self.cut, every))

    def with_ops(self, *ops: str, connected: bool = True) -> Subgraph:
        """The nodes of some ops, by default connected through the nodes left out."""
        return self._with(choose.with_ops(self.cut, ops, connected=connected))

    def within(self, scope: str) -> Subgraph:
        """The nodes in a scope, or in a function of the library."""
        return self._with(choose.within(self.cut, scope))

    def around(self, node: str, hops: int = 2) -> Subgraph:
        """A node and all nodes at most `hops` edges away."""
        return self._with(choose.around(self.cut, node, hops))

    def forward_only(self) -> Subgraph:
        """The forward pass: without gradients, optimizer and pass-through nodes such as Identity."""
        return self._with(choose.forward_only(self.cut))

    def without_constants(self) -> Subgraph:
        """All but the constants."""
        return self._with(choose.without_constants(self.cut))

    def collapse(self, depth: int = 1) -> Subgraph:
        """One box for each scope at a depth; a collapsed graph cannot be selected from further."""
        return self._with(collapse(self.cut, depth))

    def nodes(self, limit: int | None = None) -> Sequence[Box]:
        """The nodes, or the boxes of collapsed scopes, in scope order."""
        return list(islice(self.cut.boxes(), limit))

    def stats(self) -> stats.Stats:
        """Counts by op, phase, dtype, device, function and scope."""
        return stats.count(self.cut)

    def to_networkx(self) -> networkx.DiGraph[str]:
        """Convert to a NetworkX graph of names. A million nodes take half a minute and 1.7 GB."""
        from lowtide.atlas.exports.networks import to_networkx

        return to_networkx(self.cut)

    def to_rustworkx(self) -> rustworkx.PyDiGraph[dict[str, Any], dict[str, Any]]:
        """Convert to a rustworkx graph; each node is a dictionary with its name."""
        from lowtide.atlas.exports.networks import to_rustworkx

        return to_rustworkx(self.cut)

    def save(self, path: str | os.PathLike[str], *, limit_attributes: int | str | None = None) -> tuple[str, ...]:
        """Write a file in the format of its suffix: .svg, .png, .json, .graphml, .dot or .pb. Return notes about it.

        In a .pb, attributes larger than `limit_attributes` bytes, such as weights, are emptied.
        """
        return write(self.cut, Path(path), limit_attributes, self.notes)

    def _with(self, cut: Cut) -> Subgraph:
        return Subgraph(cut, self.file_notes)

    def __repr__(self) -> str:
        source = self.cut.atlas.source
        boxes = "" if len(self.cut.nodes) == len(self) else f" in {format_count(len(self), 'box')}"
        return f"<Subgraph of {source.name}, {source.label}: {format_count(len(self.cut.nodes), 'node')}{boxes}>"
