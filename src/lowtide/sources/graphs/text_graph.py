"""Graphs in text form (`.pbtxt`): protobuf parses them with the message classes of TensorBoard.

TensorBoard's copies of the classes live in a protobuf package of their own, so they do not conflict with TensorFlow's.
A file that is cut or damaged yields the complete nodes before the damage.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from lowtide.errors import LowtideError
from lowtide.sources.graphs.converted import convert
from lowtide.sources.graphs.found_graphs import CUT, FoundGraphs, GraphCollector, GraphRange
from lowtide.sources.graphs.signatures import write_signatures
from lowtide.sources.protobuf.wire import Buffer, walk_inside

# The field of a MetaGraphDef.
_GRAPH_DEF = 2
_SAVED_MODEL_FIELDS = ("saved_model_schema_version", "meta_graphs")
_META_GRAPH_FIELDS = (
    "meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def", "asset_file_def", "object_graph_def",
)  # fmt: skip
_GRAPH_FIELDS = ("node", "library", "versions", "version", "debug_info")
# When a file is damaged, messages of these fields keep the complete messages in them; all others are dropped.
_CONTAINERS = ("meta_graphs", "graph_def", "library", "function")

_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s++|#[^\n]*+\n)*+([A-Za-z_]\w*+)\s*+[:{<]")
# A string, a comment, or what opens or closes a message; strings end with their line.
_STRUCTURE = re.compile(rb"\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|#[^\n]*+|(\w*+)\s*+:?\s*+([{<\[])|([}>\]])")
_LAST_TOKEN = re.compile(rb"\s*(?:\"(?:[^\"\\\n]|\\.?)*+\"?|'(?:[^'\\\n]|\\.?)*+'?|[^\s\"']*+)\s*\Z")

# Protobuf cannot serialize a larger message, and the text is a few times larger than the message.
_LARGEST_TEXT = 4 << 30
# Protobuf reads no deeper messages.
_DEEPEST = 100
_MOST_NAMES = 50


def first_field(data: Buffer) -> str | None:
    """Return the name of the first field if the data may be a graph in text form."""
    match = _START.match(data[:4096])
    name = None if match is None else match[1].decode()
    return name if name in (*_SAVED_MODEL_FIELDS, *_META_GRAPH_FIELDS, *_GRAPH_FIELDS) else None


def find_text_graphs(data: Buffer, path: Path, cache: Path) -> FoundGraphs:
    """Find the graphs of a file in text form; they are written into the cache as GraphDefs."""
    if len(data) > _LARGEST_TEXT:
        raise LowtideError(
            "a graph in text form can have at most 4 GiB", given=path, cure="save it in binary form, as a .pb file"
        )
    first = first_field(data)
    kind = "saved_model" if first in _SAVED_MODEL_FIELDS else "text graph"

    def write(out: IO[bytes], findings: GraphCollector) -> None:
        classes = _message_classes(path)
        message = classes["SavedModel" if kind == "saved_model" else _message_name(first)]()
        problem, is_cut = _parse_file(data, path, message)
        if problem is not None and not is_cut:
            findings.note(f"{problem}; what follows is not read")
        _write_graphs(message, out, findings, (CUT,) if is_cut else ())
        if not findings.spans:
            raise LowtideError(
                f"no graph is in this text: {problem or 'it has no field of one'}",
                given=path,
                cure="give a GraphDef in text form",
            )

    return convert(path, "text", cache, kind, write)


def _message_name(first: str | None) -> str:
    return "MetaGraphDef" if first in _META_GRAPH_FIELDS else "GraphDef"


def _message_classes(path: Path) -> dict[str, Any]:
    try:
        return _load_message_classes()
    except ImportError as error:
        raise LowtideError(
            "reading a graph in text form needs protobuf and TensorBoard",
            given=path,
            cure='pip install "lowtide[tensorboard]"',
        ) from error


@cache
def _load_message_classes() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from tensorboard.compat.proto import graph_pb2, meta_graph_pb2

    # TensorBoard has no SavedModel: it is a version and a list of MetaGraphDefs.
    file = descriptor_pb2.FileDescriptorProto(name="lowtide/saved_model.proto", package="lowtide", syntax="proto3")
    file.dependency.append(meta_graph_pb2.DESCRIPTOR.name)
    fields = file.message_type.add(name="SavedModel").field
    kind = descriptor_pb2.FieldDescriptorProto
    meta_graph = f".{meta_graph_pb2.MetaGraphDef.DESCRIPTOR.full_name}"
    fields.add(name="saved_model_schema_version", number=1, type=kind.TYPE_INT64, label=kind.LABEL_OPTIONAL)
    fields.add(name="meta_graphs", number=2, type=kind.TYPE_MESSAGE, label=kind.LABEL_REPEATED, type_name=meta_graph)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    saved_model = message_factory.GetMessageClass(pool.FindMessageTypeByName("lowtide.SavedModel"))
    return {"GraphDef": graph_pb2.GraphDef, "MetaGraphDef": meta_graph_pb2.MetaGraphDef, "SavedModel": saved_model}


def _parse_file(data: Buffer, path: Path, message: Any) -> tuple[str | None, bool]:
    """Parse a file into `message`; return what is wrong in which line, and whether the file ends there."""
    with path.open("rb") as source:
        source.seek(len(_BOM) if data[:3] == _BOM else 0)
        text = TextIOWrapper(source, "utf-8", "replace", newline="\n")
        error = _parse(text, message)
    if error is None:
        return None, False
    end, reason = _find_offset(data, *error[0]) if error[0] else _find_nesting(data), error[1]
    message.Clear()
    _parse(_repaired_lines(data, end), message)
    line = data[:end].count(b"\n") + 1
    return f"line {line:,}: {reason}", _LAST_TOKEN.match(data, end) is not None


def _parse(lines: Iterable[str], message: Any) -> tuple[tuple[int, int] | None, str] | None:
    """Parse lines into `message`; return the line and column of an error, if they are known, and its reason."""
    from google.protobuf import text_format

    try:
        text_format.MergeLines(lines, message, allow_unknown_extension=True, allow_unknown_field=True)
    except text_format.ParseError as error:
        # The text begins with the line, the column and the content of the line.
        reason = re.sub(r"^\d+:\d+ : ", "", str(error)).rpartition("': ")[2].rstrip(".")
        return (error.GetLine() or 1, error.GetColumn() or 1), reason
    except RecursionError:
        return None, f"messages are nested more than {_DEEPEST} deep"
    return None


def _find_offset(data: Buffer, line: int, column: int) -> int:
    """Return the offset of a line and a column, both counted from 1."""
    start = len(_BOM) if data[:3] == _BOM else 0
    for _ in range(line - 1):
        start = data.find(b"\n", start) + 1
    end = data.find(b"\n", start)
    text = data[start : len(data) if end < 0 else end].decode("utf-8", "replace")
    return min(start + len(text[: column - 1].encode()), len(data))


def _open_messages(data: Buffer, end: int) -> Iterator[tuple[int, list[tuple[str, int, bytes]]]]:
    """Yield the offset behind each brace before `end`, and the messages that are open there.

    An open message is the name of its field, the offset of that name, and its opening brace.
    """
    opened: list[tuple[str, int, bytes]] = []
    for match in _STRUCTURE.finditer(data, 0, end):
        if match[2] is not None:
            opened.append((match[1].decode(), match.start(), match[2]))
        elif match[3] is not None and opened:
            opened.pop()
        if match[2] is not None or match[3] is not None:
            yield match.end(), opened


def _find_nesting(data: Buffer) -> int:
    """Return where messages are nested too deeply."""
    return next(end for end, opened in _open_messages(data, len(data)) if len(opened) > _DEEPEST)


def _repaired_lines(data: Buffer, end: int) -> list[str]:
    """Return the text before `end` without its last, incomplete message, closing the messages that contain it."""
    kept, opened = next(iter(deque(_open_messages(data, end), maxlen=1)), (0, []))
    containers = []
    for name, start, brace in opened:
        if name not in _CONTAINERS:
            kept = start
            break
        containers.append(b"}" if brace == b"{" else b">")
    content = data[len(_BOM) if data[:3] == _BOM else 0 : kept] + b"".join(reversed(containers))
    return content.decode("utf-8", "replace").split("\n")


def _write_graphs(message: Any, out: IO[bytes], findings: GraphCollector, notes: tuple[str, ...]) -> None:
    for meta in message.meta_graphs if hasattr(message, "meta_graphs") else [message]:
        graph = getattr(meta, "graph_def", meta)
        if graph is not meta and not meta.HasField("graph_def"):
            continue
        content = graph.SerializeToString(deterministic=True)
        if not content:
            continue
        tags = meta.meta_info_def.tags[:_MOST_NAMES] if graph is not meta else []
        signatures = sorted(meta.signature_def)[:_MOST_NAMES] if graph is not meta else []
        about = (f"signatures: {', '.join(signatures)}",) if signatures else ()
        label = ", ".join(tags) or "graph"
        if meta is not message:
            whole = meta.SerializeToString(deterministic=True)
            place = next(walk_inside(whole, 0, len(whole), _GRAPH_DEF))
            write_signatures(whole, (0, len(whole)), place, label, out, findings)
        start = out.tell()
        out.write(content)
        findings.add(GraphRange(start, out.tell(), label, about), notes)
