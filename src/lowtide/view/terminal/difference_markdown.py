"""A difference as Markdown, for a comment on a pull request."""

from collections.abc import Iterable

from lowtide.units import format_change
from lowtide.view.reports.difference import (
    DETAILED_TENSORS,
    DifferenceReport,
    change_cells,
    layer_text,
    tensor_name,
    tensor_sign,
    tensor_text,
)


def render_markdown(shown: DifferenceReport) -> str:
    """Return the headline and the layers, with the details in a collapsed section."""
    difference = shown.difference
    parts = [f"### Memory of {_text(shown.report.title)}: {difference.peak}"]
    answers = [f"{'✅' if good else '❌'} {_text(text)}" for good, text in shown.verdicts]
    parts.append("\n".join(f"- {line}" for line in [*answers, difference.layers_line, f"safe bound {difference.safe}"]))
    if difference.changed:
        rows: list[tuple[str, ...]] = [
            (_code(label.strip()), *change_cells(change)) for label, change in shown.layer_rows()
        ]
        rows.append(("**peak**", *(f"**{cell}**" for cell in change_cells(difference.peak))))
        parts.append(_table(("layer", "before", "after", "growth"), rows))
    kinds = [(change.kind, *change_cells(change)) for change in difference.by_kind if change.growth_bytes]
    if kinds:
        parts.append(_folded("By kind", _table(("kind", "before", "after", "growth"), kinds)))
    tensors = [
        (
            _code(layer_text(layer)),
            _code(f"{tensor_sign(change)} {tensor_name(change)}"),
            tensor_text(change),
            format_change(change.growth_bytes),
            _text(change.tensor.source or ""),
        )
        for layer in shown.detailed_layers()
        for change in layer.tensors[:DETAILED_TENSORS]
    ]
    if tensors:
        table = _table(("layer", "tensor", "type", "growth", "line"), tensors)
        parts.append(_folded("What changed most in them", table))
    parts += [f"> {_text(note)}" for note in difference.notes]
    return "\n\n".join(parts) + "\n"


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    numbers = ("before", "after", "growth")
    lines = [headings, tuple("--:" if heading in numbers else "---" for heading in headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _code(name: str) -> str:
    """Return a name as code, such that it can end neither the code nor the table cell."""
    return f"`{' '.join(name.split()).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _text(text: str) -> str:
    """Return text with all markup characters escaped."""
    for sign in ("\\", "`", "*", "_", "[", "]", "<", "|", "#", "@"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
