"""A cut as JSON, written line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from lowtide.atlas.cuts.cut import Cut

SCHEMA_VERSION = 1


def write_json(cut: Cut, path: Path, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Write boxes and edges; an edge refers to boxes by number."""
    source = cut.atlas.source
    head = {
        "schema_version": SCHEMA_VERSION,
        "file": source.name,
        "graph": source.label,
        "nodes_of_the_file": len(cut.atlas),
        "notes": notes,
    }
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1])
        file.write(', "nodes": [')
        _lines(file, (json.dumps({"id": number, **box._asdict()}) for number, box in enumerate(cut.boxes())))
        file.write('], "edges": [')
        _lines(file, _edges(cut))
        file.write("]}\n")
    return ()


def _edges(cut: Cut) -> Iterable[str]:
    for edge in cut.bundles():
        known = "null" if edge.bytes is None else edge.bytes
        yield (
            f'{{"source": {edge.source}, "target": {edge.target}, "count": {edge.count}, "control": {edge.control}, '
            f'"bytes": {known}, "through": {"true" if edge.through else "false"}}}'
        )


def _lines(file: TextIO, lines: Iterable[str]) -> None:
    before = "\n"
    for line in lines:
        file.write(before + line)
        before = ",\n"
    file.write("\n")
