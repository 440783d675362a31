"""GraphDefs written by hand, and what was chosen of them."""

from __future__ import annotations

from pathlib import Path

from lowtide.atlas.atlas import Source
from lowtide.atlas.cuts.cut import Cut, whole_graph
from lowtide.atlas.index_cache import build_atlas
from lowtide.sources.protobuf.encode import (
    dtype_attribute,
    encode_bytes,
    encode_integer,
    encode_node,
    shapes_attribute,
    text_attribute,
)

FLOAT, INT32, RESOURCE = 1, 3, 20
VERSIONS = encode_bytes(4, encode_integer(1, 1882))


def node(name: str, op: str, *inputs: str, dtype: int = FLOAT, shape: tuple[int, ...] | None = None, **texts: str):
    """A node whose first output has a dtype and, if given, a shape; keywords are attributes of text."""
    attributes = {"dtype" if op in ("Const", "Placeholder") else "T": dtype_attribute(dtype)}
    if shape is not None:
        attributes["_output_shapes"] = shapes_attribute([shape])
    attributes |= {key: text_attribute(text) for key, text in texts.items()}
    return encode_node(name, op, inputs, attributes)


def constant(name: str, content: bytes, shape: tuple[int, ...], dtype: int = FLOAT) -> bytes:
    """A Const with its value."""
    sizes = b"".join(encode_bytes(2, encode_integer(1, size)) for size in shape)
    tensor = encode_integer(1, dtype) + encode_bytes(2, sizes) + encode_bytes(4, content)
    return encode_node(name, "Const", (), {"dtype": dtype_attribute(dtype), "value": encode_bytes(8, tensor)})


def call(name: str, function: str, *inputs: str) -> bytes:
    """A node that calls a function."""
    return encode_node(name, "PartitionedCall", inputs, {"f": encode_bytes(10, encode_bytes(1, function))})


def function(name: str, *nodes: bytes) -> bytes:
    """A function of the library; nodes are those of a GraphDef, whose field number differs."""
    signature = encode_bytes(
        1, encode_bytes(1, name) + encode_bytes(2, encode_bytes(1, "x") + encode_integer(3, FLOAT))
    )
    return encode_bytes(1, signature + b"".join(b"\x1a" + each[1:] for each in nodes))


def library(*functions: bytes) -> bytes:
    return encode_bytes(2, b"".join(functions))


def cut_of(folder: Path, *nodes: bytes) -> Cut:
    """The whole of a graph of these nodes."""
    path = folder / "graph.pb"
    path.write_bytes(b"".join(nodes))
    return whole_graph(build_atlas(Source(path, 0, path.stat().st_size), cache=folder / "cache"))


def edges_of(cut: Cut) -> set[tuple[str, str]]:
    """The edges by name."""
    names = cut.names()
    return {(names[edge.source], names[edge.target]) for edge in cut.bundles()}


def through_of(cut: Cut) -> set[tuple[str, str]]:
    """The edges that lead through what was left out, by name."""
    names = cut.names()
    return {(names[edge.source], names[edge.target]) for edge in cut.bundles() if edge.through}
