"""A difference as one page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from lowtide.tide.diff import Change, LayerChange
from lowtide.units import format_change
from lowtide.view.axis import COLOURS
from lowtide.view.page import card, page_frame
from lowtide.view.reports.difference import DifferenceReport, change_cells, layer_text, tensor_sign, tensor_text
from lowtide.view.reports.tide import TideReport

_TENSORS = 40
_STYLE = """
th { cursor: default }
td.bar { display: table-cell; width: 40%; min-width: 160px }
td.bar svg { display: block; width: 100%; height: 12px }
.grown { fill: var(--over) } .shrunk { fill: var(--good) } .zero { stroke: var(--muted) }
tfoot td { font-weight: 650; border-bottom: 0 }
"""


def render_difference_page(shown: DifferenceReport) -> str:
    """Return the HTML text: the answers, the kinds, the layers and their tensors, and the notes."""
    difference = shown.difference
    kinds = [
        (f'<span class="swatch" style="background:{COLOURS[change.kind]}"></span>{change.kind}', change)
        for change in difference.by_kind
        if change.growth_bytes
    ]
    layers = [(escape(label), change) for label, change in shown.layer_rows()] if difference.changed else []
    sections = [
        f'<section class="answers" aria-label="The answer">{_answers(shown)}</section>',
        card("By layer", _table("layer", layers, difference.peak)),
        card("By kind", _table("kind", kinds, difference.peak)),
        *(card(layer_text(layer), _tensors(layer)) for layer in difference.changed[: shown.report.top]),
        _notes(shown),
    ]
    return page_frame(
        f"{shown.report.title}, against {TideReport(difference.before).title}", "\n".join(sections), _STYLE
    )


def _answers(shown: DifferenceReport) -> str:
    difference = shown.difference
    cards = [
        ("", "peak", format_change(difference.growth_bytes), f"{difference.peak}: {difference.layers_line}"),
        ("", "safe bound", format_change(difference.safe.growth_bytes), str(difference.safe)),
        *(("good" if good else "over", "asked", "✓" if good else "✗", text) for good, text in shown.verdicts),
    ]
    return "".join(
        f'<div class="answer {style}"><div class="what">{what}</div><div class="value">{value}</div>'
        f'<div class="why">{escape(why)}</div></div>'
        for style, what, value, why in cards
    )


def _table(heading: str, rows: Sequence[tuple[str, Change]], total: Change) -> str:
    if not rows:
        return ""
    amounts = [change.growth_bytes for _, change in rows]
    body = "".join(
        f"<tr><td>{label}</td>{_numbers(change)}<td class='bar'>{_bar(change.growth_bytes, amounts)}</td></tr>"
        for label, change in rows
    )
    numbers = "".join(f'<th class="number">{name}</th>' for name in ("before", "after", "growth"))
    return (
        f"<table><thead><tr><th>{heading}</th>{numbers}<th></th></tr></thead><tbody>{body}</tbody>"
        f"<tfoot><tr><td>peak</td>{_numbers(total)}<td></td></tr></tfoot></table>"
    )


def _numbers(change: Change) -> str:
    return "".join(f'<td class="number">{cell}</td>' for cell in change_cells(change))


def _bar(amount: int, amounts: list[int]) -> str:
    """Return a bar to the right of zero for what grew, to the left for what shrank; in percent of the width."""
    most, least = max(0, *amounts), min(0, *amounts)
    scale = 100 / max(most - least, 1)
    zero = -least * scale
    start, length = min(zero, zero + amount * scale), abs(amount) * scale
    return (
        f'<svg aria-hidden="true"><rect class="{"grown" if amount > 0 else "shrunk"}" x="{start:.2f}%"'
        f' width="{length:.2f}%" height="12" rx="2"/>'
        f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="12"/></svg>'
    )


def _tensors(layer: LayerChange) -> str:
    rows = "".join(
        f'<tr><td><span class="swatch" style="background:{COLOURS[change.tensor.kind or "other"]}"></span>'
        f"{tensor_sign(change)} {escape(change.tensor.op or '')}</td>"
        f'<td class="dim" title="{escape(change.tensor.name or "")}">{escape(change.tensor.name or "")}</td>'
        f"<td>{escape(tensor_text(change))}</td>"
        f'<td class="number">{format_change(change.growth_bytes)}</td>'
        f'<td class="dim">{escape(change.tensor.source or "")}</td></tr>'
        for change in layer.tensors[:_TENSORS]
    )
    rest = layer.tensors[_TENSORS:]
    if rest:
        growth = format_change(sum(change.growth_bytes for change in rest))
        rows += f'<tr><td colspan="3">{len(rest):,} more</td><td class="number">{growth}</td><td></td></tr>'
    headings = '<th>op</th><th>tensor</th><th>type</th><th class="number">growth</th><th>line</th>'
    return f"<table><thead><tr>{headings}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _notes(shown: DifferenceReport) -> str:
    rows = "".join(f"<dt>note</dt><dd>{escape(note)}</dd>" for note in shown.difference.notes)
    rows += f"<dt>method</dt><dd>{escape(shown.report.method_line)}</dd>"
    return f'<section class="card grounds"><h2>How this was found</h2><dl>{rows}</dl></section>'
