"""Reports of benchmarks in Markdown: tables, bars, and notes about what could not be measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.processes import MEBIBYTE


@dataclass(frozen=True)
class Bar:
    """One target of a benchmark: its words, the figure that was measured, and whether the target is met."""

    words: str
    seen: str
    holds: bool


@dataclass(frozen=True)
class Section:
    """One part of a report: a table with its bars, and notes below it."""

    title: str
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    bars: Sequence[Bar] = ()
    notes: Sequence[str] = ()


def mebibytes(size: float | None) -> str:
    return "n/a" if size is None else f"{size / MEBIBYTE:,.0f}"


def percent(share: float | None, *, signed: bool = False, digits: int = 0) -> str:
    if share is None:
        return "n/a"
    return f"{100 * share:+.{digits}f}%" if signed else f"{100 * share:.{digits}f}%"


def number(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    # A "|" inside a cell would end it.
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


# The cache has the rest.
MOST_NAMED = 12


def bars_markdown(bars: Iterable[Bar]) -> list[str]:
    return table(("bar", "seen", "holds"), [(bar.words, bar.seen, "yes" if bar.holds else "**no**") for bar in bars])


def to_markdown(
    sections: Sequence[Section],
    setting: Mapping[str, str],
    earlier: Sequence[str] = (),
    *,
    title: str = "Planned steps",
    unit: str = "MiB",
) -> str:
    """The whole report. The benchmark's README explains each column.

    `earlier` names the measurements that were made with another version of the source.
    """
    described = ", ".join(f"{key} {value}" for key, value in setting.items())
    lines = [f"# {title}", "", f"Measured with {described}. Sizes are in {unit}.", ""]
    if earlier:
        named = ", ".join(earlier[:MOST_NAMED]) + (
            f" and {len(earlier) - MOST_NAMED} more" if len(earlier) > MOST_NAMED else ""
        )
        lines += [f"Measured with an earlier version of the source: {named}.", ""]
    lines += bars_markdown(bar for section in sections for bar in section.bars)
    for section in sections:
        lines += ["", f"## {section.title}", "", *table(section.columns, section.cells)]
        if section.notes:
            lines += ["", *(f"- {note}" for note in section.notes)]
    return "\n".join(lines) + "\n"
