"""A cut as a graph of NetworkX or rustworkx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lowtide.atlas.cuts.cut import Cut
from lowtide.errors import LowtideError

if TYPE_CHECKING:
    import networkx
    import rustworkx

_CURE = 'run: pip install "lowtide[graph]"'


def to_networkx(cut: Cut) -> networkx.DiGraph[str]:
    """Convert to NetworkX: nodes by name with their facts, edges with counts and bytes."""
    try:
        import networkx
    except ImportError as error:
        raise LowtideError("this needs NetworkX, which is not installed", cure=_CURE) from error
    network: networkx.DiGraph[str] = networkx.DiGraph()
    names = []
    for box in cut.boxes():
        facts = box._asdict()
        name = facts.pop("name")
        # A damaged file may have duplicate names.
        while name in network:
            name += "'"
        names.append(name)
        network.add_node(name, **facts)
    network.add_edges_from((names[source], names[target], facts) for source, target, facts in _edges(cut))
    return network


def to_rustworkx(cut: Cut) -> rustworkx.PyDiGraph[dict[str, Any], dict[str, Any]]:
    """Convert to rustworkx: each node is a dictionary of name and facts, each edge one of counts and bytes."""
    try:
        import rustworkx
    except ImportError as error:
        raise LowtideError("this needs rustworkx, which is not installed", cure=_CURE) from error
    network: rustworkx.PyDiGraph[dict[str, Any], dict[str, Any]] = rustworkx.PyDiGraph(multigraph=False)
    network.add_nodes_from([box._asdict() for box in cut.boxes()])
    network.add_edges_from(list(_edges(cut)))
    return network


def _edges(cut: Cut) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for edge in cut.bundles():
        facts = {"count": edge.count, "control": edge.control, "bytes": edge.bytes, "through": edge.through}
        yield edge.source, edge.target, facts
