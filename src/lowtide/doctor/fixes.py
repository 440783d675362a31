"""Applies the corrections of findings to a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lowtide.doctor.problem import Edit


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits in it; of two edits that overlap only the first is applied."""
    parts = []
    position = 0
    for edit in sorted(set(edits), key=lambda each: each.span):
        begin, end = edit.span
        if begin < position:
            continue
        parts += [text[position:begin], edit.text]
        position = end
    return "".join([*parts, text[position:]])


def choose_edits(corrections: Iterable[Sequence[Edit]]) -> list[Edit]:
    """Return the edits of the corrections that do not overlap with an earlier one: each is applied whole or not."""
    chosen: list[Edit] = []
    for edits in corrections:
        if not any(_overlap(edit, other) for edit in edits for other in chosen):
            chosen += [edit for edit in edits if edit not in chosen]
    return chosen


def _overlap(edit: Edit, other: Edit) -> bool:
    if edit == other:
        return False
    (begin, end), (other_begin, other_end) = edit.span, other.span
    # Two texts may be inserted at one place.
    return begin < other_end and other_begin < end
