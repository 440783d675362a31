"""A cut as a file for Graphviz."""

from __future__ import annotations

from pathlib import Path

from lowtide.atlas.cuts.cut import Box, Cut
from lowtide.units import format_bytes, format_count


def write_dot(cut: Cut, path: Path) -> tuple[str, ...]:
    """Write boxes and edges line by line; control edges are dashed, paths through nodes left out are dotted."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"digraph {_quoted(cut.atlas.source.name)} {{\n")
        file.write('node [shape=box, style=rounded, fontname="sans-serif"];\n')
        for number, box in enumerate(cut.boxes()):
            file.write(f"n{number} [label={_quoted(_label(box))}];\n")
        for edge in cut.bundles():
            options = [f'label="{format_bytes(edge.bytes)}"'] if edge.bytes and edge.count > 1 else []
            if edge.through or edge.control == edge.count:
                options.append(f"style={'dotted' if edge.through else 'dashed'}")
            text = f" [{', '.join(options)}]" if options else ""
            file.write(f"n{edge.source} -> n{edge.target}{text};\n")
        file.write("}\n")
    return ()


def _label(box: Box) -> str:
    return f"{box.name}\n{box.op}" if box.op else f"{box.name}\n{format_count(box.nodes, 'node')}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "\ufffd")
    return f'"{escaped}"'
