"""Keras models as graphs, from the JSON that Keras saves: a node for each layer, a scope for each nested model."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

from lowtide.program.dtypes import DTYPES
from lowtide.sources.graphs.converted import convert
from lowtide.sources.graphs.found_graphs import FoundGraphs, GraphCollector, GraphRange
from lowtide.sources.graphs.keras_layers import Layer, Level, read_model
from lowtide.sources.protobuf.encode import dtype_attribute, encode_node, shapes_attribute, text_attribute
from lowtide.sources.protobuf.wire import Buffer, read_text
from lowtide.units import format_count

CONFIG = "config.json"

# Models with thousands of layers need a tenth of this.
_LARGEST_CONFIG = 32 << 20
_LONGEST_LIST = 32
_LONGEST_TEXT = 200
_MOST_ATTRIBUTES = 100

_LAYERS = "its nodes are Keras layers, which are no ops of TensorFlow"
_NOT_SHOWN = ("name", "layers", "input_layers", "output_layers")
_DTYPE_NUMBERS = {name: number for number, (name, _) in DTYPES.items()}

_UNREADABLE = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # unknown compression
    RuntimeError,  # encrypted
    ValueError,
    KeyError,
    RecursionError,
)


def find_keras_graph(path: Path, cache: Path) -> FoundGraphs:
    """Find the layers of a `.keras` file; they are written into the cache."""

    def write(out: IO[bytes], findings: GraphCollector) -> None:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(CONFIG) as member:
                text = member.read(_LARGEST_CONFIG + 1)
        except _UNREADABLE as error:
            findings.note(f"its {CONFIG} cannot be read: {_one_line(error)}")
            return
        _write_model(text, out, findings, None)

    return convert(path, "keras", cache, "keras", write)


def find_keras_json(data: Buffer, start: int, end: int, label: str, path: Path, cache: Path) -> FoundGraphs:
    """Find the layers of a model whose JSON is in an event file."""

    def write(out: IO[bytes], findings: GraphCollector) -> None:
        _write_model(data[start : min(end, start + _LARGEST_CONFIG + 1)], out, findings, label)

    return convert(path, f"keras at {start}", cache, "keras", write)


def _write_model(text: bytes, out: IO[bytes], findings: GraphCollector, label: str | None) -> None:
    if len(text) > _LARGEST_CONFIG:
        findings.note(f"the description of the Keras model is larger than {_LARGEST_CONFIG >> 20} MiB; it is not read")
        return
    try:
        model = json.loads(text)
    except _UNREADABLE as error:
        findings.note(f"the description of the Keras model cannot be read: {_one_line(error)}")
        return
    level = read_model(model)
    if level is None:
        findings.note("the description of the Keras model does not name its layers")
        return
    _write_level(level, out)
    name = label or f"Keras model {_without_surrogates(level.name)}".rstrip()
    findings.add(GraphRange(0, out.tell(), name, tuple(level.notes), import_obstacle=_LAYERS))


def _write_level(level: Level, out: IO[bytes]) -> None:
    for layer in level.layers:
        inputs = [level.tensor(reference) for reference in layer.inputs]
        if layer.inside is None:
            out.write(encode_node(layer.path, layer.class_name, [*inputs, *layer.fed], _attributes(layer)))
        else:
            layer.inside.feed(inputs)
            _write_level(layer.inside, out)


def _attributes(layer: Layer) -> dict[str, bytes]:
    shown = ((key, value) for key, value in layer.config.items() if key not in _NOT_SHOWN and value is not None)
    attributes = dict(_attribute(key, value) for key, value in list(shown)[:_MOST_ATTRIBUTES])
    if layer.calls > 1:
        attributes["calls"] = text_attribute(str(layer.calls))
    if layer.shapes:
        outputs = range(min(max(layer.shapes) + 1, _LONGEST_LIST))
        attributes["_output_shapes"] = shapes_attribute(layer.shapes.get(output) for output in outputs)
    return attributes


def _attribute(key: str, value: Any) -> tuple[str, bytes]:
    if key == "dtype" and (number := _DTYPE_NUMBERS.get(_dtype(value))) is not None:
        return key, dtype_attribute(number)
    return key, text_attribute(_value_text(value))


def _dtype(value: Any) -> str:
    """Return the name of a dtype or of a dtype policy."""
    if isinstance(value, dict) and isinstance(value.get("config"), dict):
        value = value["config"].get("name")
    return value if isinstance(value, str) else ""


def _value_text(value: Any) -> str:
    """Return a short text for a value: the name of an initializer, the length of a long list."""
    if isinstance(value, dict):
        value = _dtype(value) or value.get("class_name", format_count(len(value), "value"))
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        value = format_count(len(value), "value")
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_LONGEST_TEXT]


def _without_surrogates(name: str) -> str:
    """Return a name without surrogates, which JSON allows and UTF-8 does not."""
    data = name.encode("utf-8", "replace")
    return read_text(data, 0, len(data))
