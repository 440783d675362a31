"""What the page draws of shortages, as plain data."""

from collections.abc import Sequence
from typing import Any

from lowtide.oom.shortage import Shortage
from lowtide.tide.owner import Owner
from lowtide.view.axis import COLOURS
from lowtide.view.page_data.tide import tide_data
from lowtide.view.reports.shortage import (
    BAR_COLOURS,
    UNKNOWN_COLOUR,
    bar_parts,
    cause_line,
    fact_lines,
    holder_text,
    title_line,
)
from lowtide.view.reports.tide import TideReport

_HOLDERS = 40
_LAYERS = 10


def shortage_data(shortages: Sequence[Shortage]) -> dict[str, Any]:
    """Return for each shortage its cause, what was requested, which buffers held the memory, and what to do."""
    target = shortages[0].target if shortages else "no shortage"
    return {"title": f"{target} · out of memory", "shortages": [_shortage_data(shortage) for shortage in shortages]}


def _shortage_data(shortage: Shortage) -> dict[str, Any]:
    rest = shortage.holders[_HOLDERS:]
    kinds = shortage.by_kind()
    is_known = bool(set(kinds) & set(COLOURS))
    layers = shortage.by_layer()[:_LAYERS] if is_known else ()
    return {
        "heading": title_line(shortage),
        "cause": cause_line(shortage),
        "facts": [*fact_lines(shortage), *(("note", note) for note in shortage.notes)],
        "room": [
            {"name": name, "bytes": size, "colour": BAR_COLOURS[name]} for name, size in bar_parts(shortage) or ()
        ],
        "advice": shortage.cause.advice,
        "kinds": [
            {"name": kind, "bytes": size, "colour": COLOURS.get(kind, UNKNOWN_COLOUR)} for kind, size in kinds.items()
        ]
        if is_known
        else [],
        "layers": [{"name": share.layer or "(no layer)", "bytes": share.bytes} for share in layers],
        "holders": [_holder_data(holder) for holder in shortage.holders[:_HOLDERS]],
        "rest": {"count": sum(holder.count for holder in rest), "bytes": sum(holder.bytes for holder in rest)},
        # Without the limit: the recorded part of the step would be said to fit it.
        "tide": None if shortage.tide is None else tide_data(TideReport(shortage.tide)),
    }


def _holder_data(holder: Owner) -> dict[str, Any]:
    owner, shape, source = holder_text(holder)
    return {
        "bytes": holder.bytes,
        "count": holder.count,
        "owner": owner,
        "shape": shape,
        "source": source,
        "colour": COLOURS.get(holder.kind or "", UNKNOWN_COLOUR),
    }
