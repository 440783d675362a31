"""The statistics of a graph, in the terminal and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lowtide.atlas.atlas import Atlas
from lowtide.atlas.cuts.stats import Share, Stats
from lowtide.atlas.labels import shorten
from lowtide.units import format_bytes, format_count
from lowtide.view.axis import COLOURS

_BAR = 24
_PHASE_COLOURS = {
    "forward": COLOURS["activations"],
    "backward": COLOURS["gradients"],
    "optimizer": COLOURS["optimizer"],
}


@dataclass(frozen=True)
class GraphReport:
    """The statistics of a graph or a cut of it, with notes about the file and about what the cut left out."""

    atlas: Atlas
    stats: Stats
    file_notes: tuple[str, ...]
    cut_notes: tuple[str, ...]
    top: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for --json."""
        data = self.stats.to_dict()
        source = self.atlas.source
        file = {"file": str(source.path), "graph": source.label, "nodes_of_the_file": len(self.atlas)}
        notes = {"file": list(self.file_notes), "choices": list(self.cut_notes)}
        return {"schema_version": data.pop("schema_version"), **file, **data, "notes": notes}


class TerminalGraph:
    """The statistics as rich prints them, for any terminal width."""

    def __init__(self, report: GraphReport) -> None:
        self.report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the size, tables of phases, ops, scopes, functions, dtypes and devices, and the notes."""
        report, stats = self.report, self.report.stats
        yield Text()
        yield from (Padding(line, (0, 0, 0, 2)) for line in _heading(report))
        tables = [
            ("phases", stats.phases, _PHASE_COLOURS),
            ("ops", stats.ops, {}),
            ("scopes", stats.scopes, {}),
            ("functions", stats.functions, {}),
            ("dtypes", stats.dtypes, {}),
            ("devices", stats.devices if len(stats.devices) > 1 else (), {}),
        ]
        for name, shares, colours in tables:
            if shares and report.top:
                yield Text()
                yield Padding(_table(name, shares, stats.nodes, report.top, colours), (0, 0, 0, 2))
        if stats.deepest is not None:
            deepest = Text.assemble(
                ("deepest scope  ", "dim"), stats.deepest.name, f" at depth {stats.deepest.depth:,}"
            )
            yield from (Text(), Padding(deepest, (0, 0, 0, 2)))
        if report.file_notes or report.cut_notes:
            yield Text()
            for note in (*report.file_notes, *report.cut_notes):
                yield Padding(Text(f"· {note}", "dim"), (0, 0, 0, 2))


def _heading(report: GraphReport) -> list[Text]:
    stats, source = report.stats, report.atlas.source
    numbers = Text.assemble((f"{stats.nodes:,}", "bold"), " nodes")
    if stats.nodes < len(report.atlas):
        numbers.append(f" of {len(report.atlas):,}", "dim")
    if stats.boxes < stats.nodes:
        numbers.append(f" in {format_count(stats.boxes, 'box')}")
    numbers.append_text(Text.assemble("    ", (f"{stats.edges:,}", "bold"), " edges"))
    if stats.edges_through:
        numbers.append(f", {stats.edges_through:,} through nodes left out", "dim")
    numbers.append(f"    {format_bytes(stats.bytes)} of outputs" if stats.bytes else "", "dim")
    return [Text(f"{source.name} · {source.label}", "bold"), numbers]


def _table(name: str, shares: Sequence[Share], nodes: int, top: int, colours: dict[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=48)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_row(Text(name, "dim"), Text("nodes", "dim"), Text("outputs", "dim"), Text(""))
    for share in shares[:top]:
        bar = "█" * max(round(_BAR * share.nodes / nodes), 1)
        size = format_bytes(share.bytes) if share.bytes else ""
        colour = colours.get(share.name, COLOURS["slack"])
        table.add_row(Text(shorten(share.name, 48)), f"{share.nodes:,}", size, Text(bar, colour))
    if len(shares) > top:
        rest = sum(share.nodes for share in shares[top:])
        table.add_row(Text(f"{format_count(len(shares) - top, 'other')}", "dim"), Text(f"{rest:,}", "dim"), "", "")
    return table
