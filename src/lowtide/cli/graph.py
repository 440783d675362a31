"""lowtide graph PATH: a graph of any size, cut down, counted, drawn or converted; without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lowtide.cli.options import check_writable, file_path
from lowtide.errors import LowtideError
from lowtide.units import parse_bytes

if TYPE_CHECKING:
    from lowtide.atlas.subgraph import Subgraph


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--graph", "label", metavar="LABEL", help="Which graph, by label or number, where there are several.")
@click.option("--scope", metavar="SCOPE", help="Only what is in this scope or function: tower_0/.")
@click.option("--forward-only", is_flag=True, help="Leave out gradients, the optimizer and identities.")
@click.option("--drop-constants", is_flag=True, help="Leave out constants.")
@click.option("--around", metavar="NODE", help="Only what is near this node.")
@click.option("--hops", type=int, metavar="N", help="With --around: the largest distance in edges; 2 by default.")
@click.option("--op", "ops", metavar="OPS", help="Only nodes of these ops: MatMul,Conv2D.")
@click.option("--sample", type=int, metavar="N", help="Only every Nth node of each kind.")
@click.option("--collapse", "depth", type=int, metavar="DEPTH", help="One box for each scope at this depth.")
@click.option("--stats", is_flag=True, help="Show the counts also when a file is written.")
@click.option("--to", "target", type=file_path(), metavar="FILE", help="Write the result.")
@click.option(
    "--limit-attributes", "limit", type=parse_bytes, metavar="BYTES", help="In a .pb, empty larger attributes."
)
@click.option("--top", default=10, type=click.IntRange(min=0), metavar="N", help="List N ops and scopes, not 10.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON, and nothing else.")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def command(
    path: Path,
    label: str | None,
    target: Path | None,
    limit: int | None,
    top: int,
    as_json: bool,
    stats: bool,
    force: bool,
    **choices: Any,
) -> int:
    """Cut a huge graph down, count its nodes, draw it or convert it; without TensorFlow and a browser.

    PATH is an event file, a folder with one, a SavedModel, or a .pb, .pbtxt, .meta or .keras file. The options
    that select nodes are applied in the order listed below, whatever their order on the command line; --op and
    --sample keep nodes connected through the nodes that they leave out.

    --to writes .svg, .png, .json, .graphml, .dot, or a .pb that TensorFlow imports. A picture of too many boxes
    is collapsed or folded, with a note.

    Exits 0; 2 on a usage error.
    """
    _check(choices, target, limit, force=force)
    subgraph = choose(_open(path, label), **choices)
    notes = () if target is None else subgraph.save(target, limit_attributes=limit)
    if as_json or stats or target is None:
        _show(subgraph, top, as_json=as_json)
    if target is not None:
        if not as_json and not stats:
            notes = (*subgraph.notes, *notes)
        for note in notes:
            click.echo(f"note: {note}", err=True)
        click.echo(f"wrote {target}", err=True)
    return 0


def choose(
    subgraph: Subgraph,
    *,
    scope: str | None,
    forward_only: bool,
    drop_constants: bool,
    around: str | None,
    hops: int | None,
    ops: str | None,
    sample: int | None,
    depth: int | None,
) -> Subgraph:
    """Apply the options that select nodes, from the widest to the narrowest."""
    if scope is not None:
        subgraph = subgraph.within(scope)
    if forward_only:
        subgraph = subgraph.forward_only()
    if drop_constants:
        subgraph = subgraph.without_constants()
    if around is not None:
        subgraph = subgraph.around(around, 2 if hops is None else hops)
    if ops is not None:
        subgraph = subgraph.with_ops(*(op.strip() for op in ops.split(",") if op.strip()))
    if sample is not None:
        subgraph = subgraph.sample(sample)
    if depth is not None:
        subgraph = subgraph.collapse(depth)
    return subgraph


def _check(choices: dict[str, Any], target: Path | None, limit: int | None, *, force: bool) -> None:
    """Refuse wrong options before any time is spent."""
    if choices["hops"] is not None and choices["around"] is None:
        raise LowtideError("--hops needs a node to start from", cure="add --around NODE")
    if target is None and limit is not None:
        raise LowtideError("--limit-attributes needs a file to write", cure="add --to FILE.pb")
    if target is not None:
        from lowtide.atlas.exports.files import check_ending

        check_ending(target, limit)
        check_writable([target], force=force)


def _open(path: Path, label: str | None) -> Subgraph:
    from lowtide.atlas.subgraph import graph
    from lowtide.cli.output import progress

    with progress("opening the graph") as on_progress:
        return graph(path, label, on_progress)


def _show(subgraph: Subgraph, top: int, *, as_json: bool) -> None:
    from lowtide.view.terminal.graph import GraphReport, TerminalGraph

    report = GraphReport(subgraph.cut.atlas, subgraph.stats(), subgraph.file_notes, subgraph.cut.notes, top)
    if as_json:
        import json

        click.echo(json.dumps(report.to_dict(), indent=2))
        return
    from rich.console import Console

    Console().print(TerminalGraph(report))
