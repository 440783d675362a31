"""Event files: the graphs that TensorFlow wrote among the summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from lowtide.errors import LowtideError
from lowtide.sources.graphs.found_graphs import FoundGraphs, GraphCollector, GraphRange
from lowtide.sources.graphs.keras_graph import find_keras_json
from lowtide.sources.graphs.recognize import is_graph
from lowtide.sources.graphs.run_metadata import find_run_graphs
from lowtide.sources.graphs.saved_model import find_meta_graph
from lowtide.sources.graphs.tfrecords import TFRecord, read_length, read_records
from lowtide.sources.protobuf.wire import BYTES, Buffer, WireError, read_text, walk, walk_inside

BAD_CHECKSUM = "the record's checksum does not match"

_GRAPH, _SUMMARY, _RUN_METADATA, _META_GRAPH = 4, 5, 8, 9
_VALUE = 1
_VALUE_TAG, _VALUE_TENSOR, _VALUE_METADATA = 1, 8, 9
_PLUGIN_DATA, _PLUGIN_NAME = 1, 1
_STRINGS = 8

# Plugins of tf.summary.trace_export, with and without the times of a profile.
_RUN_METADATA_PLUGINS = ("graph_run_metadata", "graph_run_metadata_graph")
# The plugin of the conceptual graph that Keras writes beside the graph of its step.
_KERAS_PLUGIN = "graph_keras_model"
_GRAPH_PLUGINS = b"graph_"

# The time, the step, and the tag of a summary.
_BEFORE_SUMMARY = re.compile(rb"\x09.{8}(?:\x10[\x80-\xff]*+[\x00-\x7f])?\x2a", re.DOTALL)
_SMALL = 1 << 16
# Each model becomes a file in the cache.
_MOST_MODELS = 100


class KerasModel(NamedTuple):
    """The byte range of the JSON of a Keras model."""

    start: int
    end: int
    tag: str


def is_event_file(data: Buffer) -> bool:
    """Whether the first record is an event with a time and the version of the format."""
    length = read_length(data, 0)
    return length is not None and data[12:13] == b"\x09" and data.find(b"brain.Event:", 12, 12 + min(length, 64)) > 0


def find_event_graphs(data: Buffer, path: Path, cache: Path) -> FoundGraphs:
    """Find every graph of an event file, in the order in which they were written."""
    findings = GraphCollector(path, len(data))
    for record in read_records(data, findings.note):
        if not _is_other_summary(data, record):
            _read_record(data, record, cache, findings)
    return findings.found("events")


def _is_other_summary(data: Buffer, record: TFRecord) -> bool:
    """Whether a record is a scalar summary or the like: small, complete, and without a graph."""
    return (
        record.end - record.start < _SMALL
        and record.end <= len(data)
        and record.is_intact
        and _BEFORE_SUMMARY.match(data, record.start, record.end) is not None
        and data.find(_GRAPH_PLUGINS, record.start, record.end) < 0
    )


def _read_record(data: Buffer, record: TFRecord, cache: Path, findings: GraphCollector) -> None:
    notes = () if record.is_intact else (BAD_CHECKSUM,)
    if notes:
        findings.note(f"the checksum of the record at byte {record.start:,} does not match")
    try:
        for place in _event_graphs(data, record.start, record.end):
            if isinstance(place, GraphRange):
                findings.add(place, notes)
            else:
                _add_keras_model(data, place, cache, findings, notes)
    except WireError as error:
        # A cut file has a note already.
        if record.end <= len(data):
            findings.note(f"the record at byte {record.start:,} is damaged: {error}")


def _add_keras_model(
    data: Buffer, model: KerasModel, cache: Path, findings: GraphCollector, notes: tuple[str, ...]
) -> None:
    label = f"{model.tag} · conceptual graph of the Keras model"
    if sum(span.path != findings.path for span in findings.spans) >= _MOST_MODELS:
        findings.note(f"the file has more than {_MOST_MODELS} Keras models; the others are left out")
        return
    try:
        found = find_keras_json(data, model.start, model.end, label, findings.path, cache)
    except LowtideError as error:
        # The other graphs of the file do not need the cache.
        findings.note(str(error))
        return
    for span in found.spans:
        findings.add_span(replace(span, notes=(*span.notes, *notes)))
    for note in found.notes:
        findings.note(note)


def _event_graphs(data: Buffer, start: int, end: int) -> Iterator[GraphRange | KerasModel]:
    for number, kind, first, last in walk(data, start, end):
        if kind != BYTES:
            continue
        if number == _GRAPH:
            yield GraphRange(first, last, "graph")
        elif number == _META_GRAPH:
            for place in find_meta_graph(data, first, last):
                yield replace(place, label=f"meta graph · {place.label}")
        elif number == _RUN_METADATA:
            yield from _tagged_run_metadata(data, first, last)
        elif number == _SUMMARY:
            for value in walk_inside(data, first, last, _VALUE):
                yield from _summary_graphs(data, *value)


def _tagged_run_metadata(data: Buffer, start: int, end: int) -> Iterator[GraphRange]:
    tag, metadata = "run", None
    for number, kind, first, last in walk(data, start, end):
        if (number, kind) == (1, BYTES):
            tag = read_text(data, first, last)
        elif (number, kind) == (2, BYTES):
            metadata = first, last
    if metadata is not None:
        yield from find_run_graphs(data, *metadata, tag)


@dataclass
class _SummaryValue:
    """The parts of a summary that identify a graph, in any order."""

    tag: str = ""
    plugin: str | None = None
    content: tuple[int, int] | None = None


def _summary_graphs(data: Buffer, start: int, end: int) -> Iterator[GraphRange | KerasModel]:
    value = _SummaryValue()
    damage: WireError | None = None
    try:
        _read_summary_value(data, start, end, value)
    except WireError as error:
        damage = error
    if value.content is not None and value.plugin == _KERAS_PLUGIN:
        yield KerasModel(*value.content, value.tag)
    elif value.content is not None and _is_run_metadata(data, value, is_whole=damage is None and end <= len(data)):
        yield from find_run_graphs(data, *value.content, value.tag)
    if damage is not None:
        raise damage


def _read_summary_value(data: Buffer, start: int, end: int, value: _SummaryValue) -> None:
    for number, kind, first, last in walk(data, start, end):
        if kind != BYTES:
            continue
        if number == _VALUE_TAG:
            value.tag = read_text(data, first, last)
        elif number == _VALUE_METADATA:
            for plugin in walk_inside(data, first, last, _PLUGIN_DATA):
                for name in walk_inside(data, *plugin, _PLUGIN_NAME):
                    value.plugin = read_text(data, *name) if name[1] <= len(data) else None
        elif number == _VALUE_TENSOR:
            value.content = next(walk_inside(data, first, last, _STRINGS), None)


def _is_run_metadata(data: Buffer, value: _SummaryValue, *, is_whole: bool) -> bool:
    """Whether a summary contains graphs; the plugin follows the content, so it is guessed for a cut summary."""
    if value.plugin is not None or is_whole or value.content is None:
        return value.plugin in _RUN_METADATA_PLUGINS
    try:
        return any(is_graph(data, place.start, place.end) for place in find_run_graphs(data, *value.content, ""))
    except WireError:
        return False
