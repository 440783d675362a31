"""A cut as GraphML, which Gephi, yEd, Cytoscape, NetworkX and igraph read."""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape

from lowtide.atlas.cuts.cut import Cut

_NODE_KEYS = {
    "name": "string",
    "kind": "string",
    "op": "string",
    "dtype": "string",
    "device": "string",
    "phase": "string",
    "nodes": "long",
    "bytes": "long",
}
_EDGE_KEYS = {"count": "long", "control": "long", "edge_bytes": "long", "through": "boolean"}
# Characters that XML does not allow, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'


def write_graphml(cut: Cut, path: Path) -> tuple[str, ...]:
    """Write boxes and edges line by line; unknown values are omitted."""
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEAD)
        for place, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
            for key, kind in keys.items():
                name = key.removeprefix("edge_")
                file.write(f'<key id="{key}" for="{place}" attr.name="{name}" attr.type="{kind}"/>\n')
        file.write('<graph edgedefault="directed">\n')
        for number, box in enumerate(cut.boxes()):
            data = "".join(
                f'<data key="{key}">{_text(value)}</data>' for key, value in box._asdict().items() if value is not None
            )
            file.write(f'<node id="n{number}">{data}</node>\n')
        for edge in cut.bundles():
            known = "" if edge.bytes is None else f'<data key="edge_bytes">{edge.bytes}</data>'
            data = f'<data key="count">{edge.count}</data><data key="control">{edge.control}</data>{known}'
            data += f'<data key="through">{"true" if edge.through else "false"}</data>'
            file.write(f'<edge source="n{edge.source}" target="n{edge.target}">{data}</edge>\n')
        file.write("</graph>\n</graphml>\n")
    return ()


def _text(value: object) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", str(value)))
