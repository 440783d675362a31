"""Prints the findings of a watch to the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from lowtide.tf.watch.finding import Finding
from lowtide.units import format_count

_HOW_TO_STEP = (
    "put the training loop inside of `with lt.Watch() as watch:` and call watch.step() at the end of each step,"
    " or pass the watch to fit, evaluate or predict as a callback"
)
# In fewer steps a list that is kept cannot be told apart from one that is emptied later.
FEWEST_STEPS = 8
_HOW_TO_COUNT = "no step was counted: call watch.step() at the end of each step to see the growth per step"


def show(findings: Sequence[Finding], steps: int, measured_by: str | None, notes: Sequence[str]) -> None:
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


def _heading(findings: Sequence[Finding], steps: int, measured_by: str | None) -> Text:
    if not steps and not findings:
        return Text.assemble(
            ("lowtide watch: ", "bold"), ("no step was watched", "bold yellow"), (f": {_HOW_TO_STEP}", "dim")
        )
    what = format_count(len(findings), "leak") if findings else "nothing grows"
    style = "bold red" if findings else "bold green"
    basis = f" in {format_count(steps, 'step')}, by {measured_by}" if steps else f"; {_HOW_TO_COUNT}"
    if not findings and 0 < steps < FEWEST_STEPS:
        basis += f"; tensors that are kept are found from {FEWEST_STEPS} steps on"
    return Text.assemble(("lowtide watch: ", "bold"), (what, style), (basis, "dim"))
