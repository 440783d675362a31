"""Prints the findings of a watch to the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from lowtide.tf.watch.finding import Finding


def show(findings: Sequence[Finding], steps: int, measured_by: str, notes: Sequence[str]) -> None:
    """Print findings to standard error, with the number of steps, the source of the figures, and notes."""
    parts: list[Text | Padding] = [_heading(findings, steps, measured_by)]
    for finding in findings:
        heads = [Text(finding.name, "bold red"), Text(finding.growth or ""), Text(finding.source or "", "bold")]
        parts.append(Padding(Text("  ").join(head for head in heads if head), (0, 0, 0, 2)))
        for label, words in (("", finding.what), ("by: ", finding.who), ("fix: ", finding.fix)):
            parts.append(Padding(Text.assemble((label, "dim"), words), (0, 0, 0, 4)))
    parts += [Padding(Text(note, "dim"), (0, 0, 0, 2)) for note in notes]
    # Standard output belongs to the watched program.
    Console(stderr=True, highlight=False).print(Group(*parts))


def _heading(findings: Sequence[Finding], steps: int, measured_by: str) -> Text:
    what = "nothing grows" if not findings else "1 leak" if len(findings) == 1 else f"{len(findings)} leaks"
    style = "bold red" if findings else "bold green"
    basis = f" in {steps:,} steps, by {measured_by}"
    return Text.assemble(("lowtide watch: ", "bold"), (what, style), (basis, "dim"))
