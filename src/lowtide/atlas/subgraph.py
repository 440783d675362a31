"""lt.graph(path): a graph of any size from Python, cut down step by step and written in other forms."""

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

if TYPE_CHECKING:
    import networkx
    import rustworkx


def graph(
    path: str | os.PathLike[str], graph: str | int | None = None, progress: ProgressCallback | None = None
) -> Subgraph:
    """The graph of an event file, a SavedModel, a .pb, .pbtxt, .meta or .keras file; without TensorFlow.

    `graph` is the label or the number of one, where there are several. `progress` is called with a
    `lowtide.progress.Progress` while the index is built.
    """
    opened = open_graph(Path(path), graph, progress)
    return Subgraph(whole_graph(opened.atlas), opened.notes)


@dataclass(frozen=True)
class Subgraph:
    """A graph, or what was chosen of it; every choice gives another one."""

    cut: Cut
    file_notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.cut)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong in the file, and what was left out of it."""
        return self.file_notes + self.cut.notes

    def sample(self, every: int) -> Subgraph:
        """Every Nth node of each kind; what lay between stays connected."""
        return self._with(choose.sample(self.cut, every))

    def with_ops(self, *ops: str, connected: bool = True) -> Subgraph:
        """The nodes of some ops, connected through the others unless that is not wanted."""
        return self._with(choose.with_ops(self.cut, ops, connected=connected))

    def within(self, scope: str) -> Subgraph:
        """The nodes in a scope, or in a function of the library."""
        return self._with(choose.within(self.cut, scope))

    def around(self, node: str, hops: int = 2) -> Subgraph:
        """A node and all that is at most so many edges away."""
        return self._with(choose.around(self.cut, node, hops))

    def forward_only(self) -> Subgraph:
        """Without gradients, optimizer, and nodes that only hand on what they read."""
        return self._with(choose.forward_only(self.cut))

    def without_constants(self) -> Subgraph:
        """All but the constants."""
        return self._with(choose.without_constants(self.cut))

    def collapse(self, depth: int = 1) -> Subgraph:
        """One box for each scope at a depth; this comes last."""
        return self._with(collapse(self.cut, depth))

    def nodes(self, limit: int | None = None) -> Sequence[Box]:
        """The nodes, or boxes that stand for scopes, in the order of their scopes."""
        return list(islice(self.cut.boxes(high=limit), limit))

    def stats(self) -> stats.Stats:
        """Counts by op, phase, dtype, device, function and scope."""
        return stats.count(self.cut)

    def to_networkx(self) -> networkx.DiGraph[str]:
        """The same in NetworkX, by name; a million nodes take it half a minute and 1.7 GB, so cut first."""
        from lowtide.atlas.exports.networks import to_networkx

        return to_networkx(self.cut)

    def to_rustworkx(self) -> rustworkx.PyDiGraph[dict[str, Any], dict[str, Any]]:
        """The same in rustworkx; each node is a dictionary with its name."""
        from lowtide.atlas.exports.networks import to_rustworkx

        return to_rustworkx(self.cut)

    def save(self, path: str | os.PathLike[str], *, limit_attributes: int | str | None = None) -> tuple[str, ...]:
        """Write a file; its ending says which: .svg, .png, .json, .graphml, .dot or .pb. Returns what there is to know.

        In a .pb, `limit_attributes` empties attributes that are larger, such as weights.
        """
        return write(self.cut, Path(path), limit_attributes, self.notes)

    def _with(self, cut: Cut) -> Subgraph:
        return Subgraph(cut, self.file_notes)

    def __repr__(self) -> str:
        source = self.cut.atlas.source
        boxes = "" if len(self.cut.nodes) == len(self) else f" in {len(self):,} boxes"
        return f"<Subgraph of {source.path.name}, {source.label}: {len(self.cut.nodes):,} nodes{boxes}>"
