"""An Atlas: one graph of any size, as columns in files that are mapped into memory.

Nodes are numbered in the depth-first order of their name scopes, so that each scope is a range of nodes: first the
nodes directly in it, then those of the scopes within. Scopes are numbered in the same order. Part 0 is the main graph,
the other parts are the functions of its library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.atlas.index.arrays import Column, Ids, Indices, Mask
from lowtide.atlas.index.columns import open_column, release
from lowtide.atlas.index.names import name_hashes
from lowtide.atlas.index.phases import PHASES
from lowtide.atlas.index.references import CONTROL
from lowtide.atlas.index.text import hash_text
from lowtide.program.dtypes import dtype_name
from lowtide.units import format_count


@dataclass(frozen=True)
class Source:
    """The file that a graph was read from, and the span of the GraphDef in it."""

    path: Path
    start: int
    end: int
    label: str = "graph"
    is_settled: bool = False
    """Whether the span stays unchanged when the file changes, as in a file that is only appended to."""
    import_obstacle: str | None = None
    """Why TensorFlow cannot import the graph."""
    given: Path | None = None
    """The file or folder that the user gave, where `path` is a converted file in the cache or a file in the folder."""

    @property
    def name(self) -> str:
        """The name of the file or folder that the user gave."""
        return (self.given or self.path).resolve().name


class _MappedColumn:
    """An attribute that maps a column of the index when it is first read."""

    def __init__(self, column: str) -> None:
        self._column = column

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, atlas: Atlas, owner: type | None = None) -> Column:
        # Stored under the same name in the instance, where later reads find it first.
        column = vars(atlas)[self._name] = atlas.column(self._column)
        return column


class Atlas:
    """A graph: nodes, their inputs and readers, name scopes, and the functions of its library."""

    def __init__(self, folder: Path, header: dict[str, Any], source: Source) -> None:
        self.folder = folder
        self.source = source
        self.header = header
        self.notes: tuple[str, ...] = tuple(header["notes"])
        self.parts: list[str] = header["parts"]

    def __len__(self) -> int:
        return int(self.header["nodes"])

    @property
    def edge_count(self) -> int:
        return int(self.header["edges"])

    def column(self, name: str) -> Column:
        """Map a column by its name."""
        return open_column(self.folder / name, self.header["columns"][name])

    def release(self) -> None:
        """Return the pages of all mapped columns to the system; they are read again when needed."""
        for value in list(vars(self).values()):
            if isinstance(value, np.ndarray):
                release(value)

    # -- nodes ----------------------------------------------------------------------------------------

    op = _MappedColumn("op")
    """The number of each node's op in `ops`."""

    @cached_property
    def ops(self) -> list[str]:
        """The distinct ops."""
        return self._texts("ops")

    device = _MappedColumn("device")
    """The number of each node's device in `devices`."""

    @cached_property
    def devices(self) -> list[str]:
        """The distinct devices; an empty text where none is given."""
        return self._texts("devices")

    dtype = _MappedColumn("dtype")
    """TensorFlow's number for the dtype of each node's first output; 0 where it is unknown."""
    phase = _MappedColumn("phase")
    """The index of each node's phase in `lowtide.atlas.index.phases.PHASES`."""
    scope = _MappedColumn("scope")
    """The scope that directly contains each node."""
    leaf = _MappedColumn("leaf")
    """The text number of each node's name within its scope."""
    is_head = _MappedColumn("is_head")
    """Whether a node has the same name as the scope that it is shown in."""
    made_from = _MappedColumn("made_from")
    """The message that each node was made from: a NodeDef, or a function's argument or result (see `node_spans`)."""
    position = _MappedColumn("position")
    """The position of each node in the file."""
    first_input = _MappedColumn("first_input")
    """CSR offsets of the inputs of each node."""
    inputs = _MappedColumn("input")
    """The source node of each input; `references.MISSING` where no node has the name."""
    input_port = _MappedColumn("input_port")
    """The output that each input reads; `references.CONTROL` for control inputs."""
    first_reader = _MappedColumn("first_reader")
    """CSR offsets of the readers of each node."""
    readers = _MappedColumn("reader")
    """The nodes that read each node."""
    first_tensor = _MappedColumn("first_tensor")
    """CSR offsets of the outputs of each node."""
    tensor_bytes = _MappedColumn("tensor_bytes")
    """The bytes of each output; 0 where they are unknown."""

    def inputs_of(self, node: int) -> Column:
        """The nodes that a node reads."""
        return self.inputs[int(self.first_input[node]) : int(self.first_input[node + 1])]

    def ports_of(self, node: int) -> Column:
        """The port of each input of a node."""
        return self.input_port[int(self.first_input[node]) : int(self.first_input[node + 1])]

    def readers_of(self, node: int) -> Column:
        """The nodes that read a node."""
        return self.readers[int(self.first_reader[node]) : int(self.first_reader[node + 1])]

    def edge_bytes(self, source: Ids | Indices, port: Column) -> Indices:
        """Return the bytes that each edge carries; 0 for control edges and where the size is unknown."""
        place = self.first_tensor[source].astype(np.int64) + port
        is_known = (port != CONTROL) & (place < self.first_tensor[source.astype(np.int64) + 1])
        size = np.zeros(len(source), np.int64)
        size[is_known] = self.tensor_bytes[place[is_known]]
        return size

    def op_of(self, node: int) -> str:
        """The op of a node."""
        return self.ops[int(self.op[node])]

    def dtype_of(self, node: int) -> str | None:
        """The dtype of a node's first output, where it is known."""
        number = int(self.dtype[node])
        return dtype_name(number) if number else None

    def phase_of(self, node: int) -> str:
        """Forward, backward or optimizer."""
        return PHASES[int(self.phase[node])]

    def bytes_in_file(self, node: int) -> tuple[int, int]:
        """Start and end of a node in the file."""
        start = int(self._start[node])
        return start, start + int(self._length[node])

    _start = _MappedColumn("start")
    _length = _MappedColumn("length")
    # -- scopes ---------------------------------------------------------------------------------------

    scope_parent = _MappedColumn("scope_parent")
    """The parent of each scope; a root is its own parent."""
    scope_leaf = _MappedColumn("scope_leaf")
    """The text number of each scope's own name."""
    scope_size = _MappedColumn("scope_size")
    """The number of scopes in each subtree, including the scope itself."""
    scope_first = _MappedColumn("scope_first")
    """The first node of each scope."""
    scope_last = _MappedColumn("scope_last")
    """One past the last node of each scope."""
    scope_direct = _MappedColumn("scope_direct")
    """The number of nodes directly in each scope."""
    part_root = _MappedColumn("part_root")
    """The root scope of each part."""

    def children(self, scope: int) -> Indices:
        """The scopes directly in a scope."""
        within = self.scope_parent[scope + 1 : scope + int(self.scope_size[scope])]
        return np.flatnonzero(within == scope) + scope + 1

    def part_of(self, node: int) -> int:
        """The part that a node belongs to."""
        return self.part_of_scope(int(self.scope[node]))

    def part_of_scope(self, scope: int) -> int:
        """The part that a scope belongs to."""
        return bisect_right(self._roots, scope) - 1

    @cached_property
    def _roots(self) -> list[int]:
        roots: list[int] = self.part_root.tolist()
        return roots

    def part_range(self, part: int) -> tuple[int, int]:
        """The first node of a part, and one past the last."""
        root = self._roots[part]
        return int(self.scope_first[root]), int(self.scope_last[root])

    def calls_of(self, node: int) -> list[int]:
        """The parts that a node calls."""
        nodes = self.column("call_node")
        low, high = np.searchsorted(nodes, [node, node + 1])
        called: list[int] = self.column("call_part")[low:high].tolist()
        return called

    # -- names ----------------------------------------------------------------------------------------

    def text(self, number: int) -> str:
        """A text by its number."""
        low, high = int(self.texts_first[number]), int(self.texts_first[number + 1])
        return self.texts[low:high].tobytes().decode(errors="replace")

    @cached_property
    def texts(self) -> Column:
        """The distinct names of scopes and leaves, concatenated."""
        return open_column(self.folder / "texts", "|u1")

    texts_first = _MappedColumn("texts_first")
    """The start of each text in `texts`."""
    texts_hash = _MappedColumn("texts_hash")
    """The hashes of all texts, ascending."""
    texts_by_hash = _MappedColumn("texts_by_hash")
    """The text number of each hash in `texts_hash`."""

    def scope_name(self, scope: int) -> str:
        """The path of a scope; "" for a root."""
        parts = []
        while (parent := int(self.scope_parent[scope])) != scope:
            parts.append(self.text(int(self.scope_leaf[scope])))
            scope = parent
        return "/".join(reversed(parts))

    def name(self, node: int) -> str:
        """The name of a node."""
        scope = self.scope_name(int(self.scope[node]))
        if self.is_head[node]:
            return scope
        leaf = self.text(int(self.leaf[node]))
        return f"{scope}/{leaf}" if scope else leaf

    def names(self, nodes: Sequence[int] | npt.NDArray[Any]) -> list[str]:
        """The names of some nodes; the path of each scope is built once."""
        wanted = np.asarray(nodes, np.int64)
        columns = (column[wanted].tolist() for column in (self.scope, self.leaf, self.is_head))
        paths: dict[int, str] = {}
        texts: dict[int, str] = {}
        found = []
        for scope, leaf, is_head in zip(*columns, strict=True):
            path = paths.get(scope)
            if path is None:
                path = self._path(scope, paths)
            if is_head:
                found.append(path)
                continue
            text = texts.get(leaf)
            if text is None:
                text = texts[leaf] = self.text(leaf)
            found.append(f"{path}/{text}" if path else text)
        return found

    def _path(self, scope: int, known: dict[int, str]) -> str:
        """The path of a scope, built from the paths in `known`; it and its ancestors are added to `known`."""
        above = []
        while scope not in known and (parent := int(self.scope_parent[scope])) != scope:
            above.append(scope)
            scope = parent
        path = known.setdefault(scope, "")
        for each in reversed(above):
            text = self.text(int(self.scope_leaf[each]))
            path = known[each] = f"{path}/{text}" if path else text
        return path

    def find_scope(self, name: str, part: int = 0) -> int | None:
        """The scope of a name, or None; the empty name is the root of the part."""
        scope = self._roots[part]
        for text in name.split("/") if name else ():
            number = self.number_of(text)
            if number is None:
                return None
            children = self.children(scope)
            children = children[self.scope_leaf[children] == number]
            if not len(children):
                return None
            scope = int(children[0])
        return scope

    def find(self, name: str, part: int = 0) -> int | None:
        """The node of a name, or None."""
        nodes, known = self.find_all([name], part)
        return int(nodes[0]) if known[0] else None

    def find_all(self, names: Sequence[str], part: int = 0) -> tuple[Ids, Mask]:
        """The nodes of some names, and which of the names exist."""
        hashes = self.column("name_hash")
        if not len(hashes) or not names:
            return np.zeros(len(names), np.uint32), np.zeros(len(names), np.bool_)
        wanted = name_hashes(names, part)
        place = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        return self.column("name_node")[place], hashes[place] == wanted

    def direct(self, scope: int) -> range:
        """The nodes directly in a scope."""
        first = int(self.scope_first[scope])
        return range(first, first + int(self.scope_direct[scope]))

    def number_of(self, text: str) -> int | None:
        """The number of a text, or None if no scope or leaf has this name."""
        hashes, wanted = self.texts_hash, np.uint64(hash_text(text))
        place = int(np.searchsorted(hashes, wanted))
        if place == len(hashes) or hashes[place] != wanted:
            return None
        return int(self.texts_by_hash[place])

    def _texts(self, name: str) -> list[str]:
        content = (self.folder / name).read_bytes()
        first = self.column(f"{name}_first").tolist()
        return [content[low:high].decode(errors="replace") for low, high in pairwise(first)]

    def __repr__(self) -> str:
        size = f"{format_count(len(self), 'node')}, {format_count(self.edge_count, 'edge')}"
        return f"<Atlas of {self.source.name}, {self.source.label}: {size}>"
