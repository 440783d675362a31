"""Graphs in text form (`.pbtxt`), written as GraphDefs node by node, so that memory is bounded by one node."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from lowtide.errors import LowtideError
from lowtide.sources.graphs.converted import convert
from lowtide.sources.graphs.found import CUT, Findings, Found, Place
from lowtide.sources.protobuf.encode import encode_bytes, encode_padded, encode_tag
from lowtide.sources.protobuf.text_schema import SCHEMAS, Field, Schema
from lowtide.sources.protobuf.text_tokens import END, NUMBER, SIGN, WORD, CutError, PlainField, TextError, Token, Tokens
from lowtide.sources.protobuf.text_values import encode_value, kind_of
from lowtide.sources.protobuf.wire import Buffer

# These are made of graphs, or of what is told about them; they are not written.
_AROUND = ("SavedModel", "MetaGraphDef", "GraphDef", "MetaInfoDef", "SignatureEntry")
# These can be as large as a graph. Their length is written when it is known.
_STREAMED = ("FunctionDefLibrary", "FunctionDef")

_OPENING = {b"{": b"}", b"<": b">"}
# Protocol buffers themselves accept a hundred.
_DEEPEST = 200
_MOST_NAMES = 50

_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s++|#[^\n]*+\n)*+([A-Za-z_]\w*+)\s*+[:{<]")
_SAVED_MODEL = (b"saved_model_schema_version", b"meta_graphs")


def first_field(data: Buffer) -> bytes | None:
    """The name of the first field, if this is text that may be a graph."""
    match = _START.match(data[:4096])
    if match is None:
        return None
    name = match[1]
    return name if name in _SAVED_MODEL or name.decode() in SCHEMAS["File"] else None


def find_text_graphs(data: Buffer, path: Path, cache: Path) -> Found:
    """Find the graphs of a file in text form; they are written into the cache."""
    kind = "saved_model" if first_field(data) in _SAVED_MODEL else "text graph"

    def write(out: IO[bytes], findings: Findings) -> None:
        with path.open("rb") as source:
            start = 3 if data[:3] == b"\xef\xbb\xbf" else 0
            source.seek(start)
            _Reader(Tokens(source.read), out, findings).read(path)

    return convert(path, "text", cache, kind, write)


@dataclass
class _Frame:
    """A message that is being read: what it may hold, and how far it is written."""

    schema: Schema
    known: Field | None
    """None where the message is passed over, and of the file itself."""
    closing: bytes
    content: bytearray | None = None
    """None where the content goes to the file at once."""
    length_at: int | None = None
    packed: dict[int, bytearray] = field(default_factory=dict)
    is_list: bool = False


class _Reader:
    """Reads fields, and keeps the messages around the current one in a list rather than on Python's stack."""

    def __init__(self, tokens: Tokens, out: IO[bytes], findings: Findings) -> None:
        self._tokens = tokens
        self._out = out
        self._findings = findings
        self._frames = [_Frame(SCHEMAS["File"], None, b"")]
        self._graph_start: int | None = None
        self._places: list[tuple[int, int]] = []
        self._tags: list[str] = []
        self._signatures: list[str] = []

    def read(self, path: Path) -> None:
        problem = None
        try:
            while self._read_field():
                pass
            if len(self._frames) > 1:
                raise CutError("the file ends in the middle of a message")
        except TextError as error:
            problem = error
        line = self._tokens.line
        if problem is not None and not isinstance(problem, CutError):
            self._findings.note(f"line {line:,}: {problem}; what follows is not read")
        self._finish((CUT,) if isinstance(problem, CutError) else ())
        if not self._findings.spans:
            why = f"line {line:,}: {problem}" if problem else "it has no field of one"
            raise LowtideError(f"no graph is in this text: {why}", given=path, cure="give a GraphDef in text form")

    def _read_field(self) -> bool:
        """Read one field, or what closes a message; False at the end of the file."""
        frame = self._frames[-1]
        if frame.closing == b"}" and (plain := self._tokens.take_plain()) is not None:
            self._read_plain(frame, plain)
            return True
        token = self._tokens.take()
        if token.kind == END:
            return False
        sign = token.value if token.kind == SIGN else None
        if sign == frame.closing:
            self._close()
        elif frame.is_list and sign != b",":
            self._read_value(frame.known, token)
        elif sign not in (b",", b";"):
            self._read_named(frame, token)
        return True

    def _read_named(self, frame: _Frame, token: Token) -> None:
        known = frame.schema.get(self._field_name(token))
        token = self._take()
        sign = token.value if token.kind == SIGN else None
        if sign != b":" and sign not in _OPENING:
            raise TextError(f"a colon is expected, not {_shown(token)}")
        if sign == b":":
            token = self._take()
        if token.kind == SIGN and token.value == b"[":
            self._push(_Frame(frame.schema, known, b"]", is_list=True))
        else:
            self._read_value(known, token)

    def _read_plain(self, frame: _Frame, plain: PlainField) -> None:
        if plain.name is None:
            self._close()
            return
        known = frame.schema.get(plain.name.decode())
        if plain.value is None:
            self._open(known, b"}")
        elif known is not None:
            self._write_value(known, plain.value, plain.is_negative)

    def _field_name(self, token: Token) -> str:
        if token.kind == SIGN and token.value == b"[":
            # The name of an extension; none is known here.
            while self._take().value != b"]":
                pass
            return ""
        if token.kind not in (WORD, NUMBER):
            raise TextError(f"the name of a field is expected, not {_shown(token)}")
        return token.value.decode()

    def _read_value(self, known: Field | None, token: Token) -> None:
        is_message = token.kind == SIGN and token.value in _OPENING
        if is_message:
            self._open(known, _OPENING[token.value])
            return
        is_negative = token.kind == SIGN and token.value == b"-"
        if is_negative:
            token = self._take()
        if token.kind == SIGN:
            raise TextError(f"a value is expected, not {_shown(token)}")
        if known is not None:
            self._write_value(known, token, is_negative)

    def _write_value(self, known: Field, token: Token, is_negative: bool) -> None:
        frame = self._owner()
        if frame.known is not None and frame.known.kind in ("MetaInfoDef", "SignatureEntry"):
            names = self._tags if frame.known.kind == "MetaInfoDef" else self._signatures
            if len(names) < _MOST_NAMES:
                names.append(token.value[:200].decode("utf-8", "replace"))
            return
        value = encode_value(known, token, is_negative)
        if known.is_packed:
            frame.packed.setdefault(known.number, bytearray()).extend(value)
        else:
            self._write(frame, encode_tag(known.number, kind_of(known)) + value)

    def _owner(self) -> _Frame:
        """The message whose field is being read; a list stands between them."""
        return self._frames[-2] if self._frames[-1].is_list else self._frames[-1]

    def _write(self, frame: _Frame, data: bytes) -> None:
        if frame.content is not None:
            frame.content += data
            return
        if self._graph_start is None:
            self._graph_start = self._out.tell()
        self._out.write(data)

    def _open(self, known: Field | None, closing: bytes) -> None:
        if known is None:
            self._push(_Frame({}, None, closing))
            return
        schema = SCHEMAS.get(known.kind)
        if schema is None:
            raise TextError("a single value is expected, not a message")
        frame = _Frame(schema, known, closing)
        if known.kind == "GraphDef":
            self._end_graph()
            self._graph_start = self._out.tell()
        elif known.kind in _STREAMED:
            self._write(self._owner(), encode_tag(known.number))
            frame.length_at = self._out.tell()
            self._out.write(encode_padded(0))
        elif known.kind not in _AROUND:
            frame.content = bytearray()
        self._push(frame)

    def _push(self, frame: _Frame) -> None:
        if len(self._frames) == _DEEPEST:
            raise TextError(f"messages lie in each other deeper than {_DEEPEST}")
        self._frames.append(frame)

    def _close(self) -> None:
        frame = self._frames.pop()
        if frame.is_list or frame.known is None:
            return
        if frame.length_at is not None:
            self._write_length(frame.length_at)
        elif frame.content is not None:
            for number, values in frame.packed.items():
                frame.content += encode_bytes(number, values)
            self._write(self._owner(), encode_bytes(frame.known.number, frame.content))
        elif frame.known.kind == "GraphDef":
            self._end_graph()
        elif frame.known.kind == "MetaGraphDef":
            self._end_meta_graph(())

    def _write_length(self, position: int) -> None:
        end = self._out.tell()
        self._out.seek(position)
        length = encode_padded(end - position - len(encode_padded(0)))
        self._out.write(length)
        self._out.seek(end)

    def _end_graph(self) -> None:
        if self._graph_start is not None:
            self._places.append((self._graph_start, self._out.tell()))
            self._graph_start = None

    def _end_meta_graph(self, notes: tuple[str, ...]) -> None:
        signatures = (f"signatures: {', '.join(self._signatures)}",) if self._signatures else ()
        for start, end in self._places:
            self._findings.add(Place(start, end, ", ".join(self._tags) or "graph", signatures), notes)
        self._places, self._tags, self._signatures = [], [], []

    def _finish(self, notes: tuple[str, ...]) -> None:
        """End what is open. A node that is not whole is left out, a function keeps the nodes that are."""
        for frame in reversed(self._frames):
            if frame.length_at is not None:
                self._write_length(frame.length_at)
        self._end_graph()
        self._end_meta_graph(notes)

    def _take(self) -> Token:
        token = self._tokens.take()
        if token.kind == END:
            raise CutError("the file ends in the middle of a field")
        return token


def _shown(token: Token) -> str:
    return repr(token.value[:40].decode("utf-8", "replace"))
