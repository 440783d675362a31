"""What the page draws of the difference of two tides, as plain data."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lowtide.tide.diff import Change, LayerChange
from lowtide.units import format_change
from lowtide.view.axis import AFTER_COLOUR, BEFORE_COLOUR, COLOURS, axis_top
from lowtide.view.page_data.tide import named_curve_data
from lowtide.view.reports.answer_card import AnswerCard
from lowtide.view.reports.difference import DifferenceReport, layer_text, tensor_sign, tensor_text
from lowtide.view.reports.tide import TideReport

_TENSORS = 40


def difference_data(shown: DifferenceReport) -> dict[str, Any]:
    """Return the answers, both curves, the kinds, the layers and their tensors, and the notes."""
    difference, report = shown.difference, shown.report
    before, after = difference.before, difference.after
    highest = max(before.peak_bytes, after.peak_bytes)
    return {
        "title": f"{report.title}, against {TideReport(before).title}",
        "answers": [asdict(answer) for answer in _answers(shown)],
        "curves": {
            "peaks": f"peak {difference.peak}",
            "budget_bytes": report.budget_bytes,
            "top_bytes": axis_top(highest, 0, report.budget_bytes),
            "curves": [
                named_curve_data(before, "before", BEFORE_COLOUR),
                named_curve_data(after, "after", AFTER_COLOUR),
            ],
        },
        "layers": [_change_data(label, None, change) for label, change in _layers(shown)],
        "kinds": [
            _change_data(change.kind, COLOURS[change.kind], change)
            for change in difference.by_kind
            if change.growth_bytes
        ],
        "peak": _change_data("peak", None, difference.peak),
        "tensors": [_tensor_data(layer) for layer in difference.changed[: report.top] if layer.tensors],
        "method": report.method_line,
        "notes": difference.notes,
    }


def _answers(shown: DifferenceReport) -> list[AnswerCard]:
    difference = shown.difference
    return [
        AnswerCard("Peak", format_change(difference.growth_bytes), f"{difference.peak}: {difference.layers_line}"),
        AnswerCard("Safe bound", format_change(difference.safe.growth_bytes), str(difference.safe)),
        *(AnswerCard("Asked", "✓" if good else "✗", text, good) for good, text in shown.verdicts),
    ]


def _layers(shown: DifferenceReport) -> Sequence[tuple[str, Change]]:
    return shown.layer_rows() if shown.difference.changed else ()


def _change_data(name: str, colour: str | None, change: Change) -> dict[str, Any]:
    return {
        "name": name,
        "colour": colour,
        "before_bytes": change.before_bytes,
        "after_bytes": change.after_bytes,
    }


def _tensor_data(layer: LayerChange) -> dict[str, Any]:
    rest = layer.tensors[_TENSORS:]
    return {
        "layer": layer_text(layer),
        "tensors": [
            {
                "sign": tensor_sign(change),
                "colour": COLOURS[change.tensor.kind or "other"],
                "op": change.tensor.op or "",
                "name": change.tensor.name or "",
                "type": tensor_text(change),
                "growth_bytes": change.growth_bytes,
                "source": change.tensor.source,
            }
            for change in layer.tensors[:_TENSORS]
        ],
        "rest": {"count": len(rest), "growth_bytes": sum(change.growth_bytes for change in rest)},
    }
