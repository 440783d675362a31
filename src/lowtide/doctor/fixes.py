"""Applies the corrections of findings to a text."""

from __future__ import annotations

from collections.abc import Iterable

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
