"""An Atlas: one graph of any size, as columns that lie in files and are mapped into memory.

Nodes are numbered in the depth-first order of their name scopes, so that each scope is a range of nodes: first those
directly in it, then those of the scopes within. Scopes are numbered in the same order. A part is the main graph, which
is part 0, or a function of the graph's library.
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
from lowtide.atlas.index.text import hash_text
from lowtide.program.dtypes import dtype_name


@dataclass(frozen=True)
class Source:
    """Where a graph was read from: the file, and where in it the GraphDef lies."""

    path: Path
    start: int
    end: int
    label: str = "graph"
    is_settled: bool = False
    """Whether these bytes stay as they are while the file changes, as in one that is only appended to."""


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
        """A column by its name, mapped."""
        return open_column(self.folder / name, self.header["columns"][name])

    def release(self) -> None:
        """Give back the memory of all columns that were read; they are read again when they are needed."""
        for value in list(vars(self).values()):
            if isinstance(value, np.ndarray):
                release(value)

    # -- nodes ----------------------------------------------------------------------------------------

    @cached_property
    def op(self) -> Column:
        """Of each node the number of its op in `ops`."""
        return self.column("op")

    @cached_property
    def ops(self) -> list[str]:
        """The distinct ops."""
        return self._texts("ops")

    @cached_property
    def device(self) -> Column:
        """Of each node the number of its device in `devices`."""
        return self.column("device")

    @cached_property
    def devices(self) -> list[str]:
        """The distinct devices; "" is none."""
        return self._texts("devices")

    @cached_property
    def dtype(self) -> Column:
        """Of each node TensorFlow's number for the dtype of its first output; 0 where nothing tells."""
        return self.column("dtype")

    @cached_property
    def phase(self) -> Column:
        """Of each node its place in `lowtide.atlas.index.phases.PHASES`."""
        return self.column("phase")

    @cached_property
    def scope(self) -> Column:
        """Of each node the scope it is directly in."""
        return self.column("scope")

    @cached_property
    def leaf(self) -> Column:
        """Of each node the number of its name within its scope."""
        return self.column("leaf")

    @cached_property
    def is_head(self) -> Column:
        """Of each node whether its name is that of the scope it is shown in."""
        return self.column("is_head")

    @cached_property
    def made_from(self) -> Column:
        """For each node, what it was made from: a node, or a function's argument or result (see `index.node_spans`)."""
        return self.column("made_from")

    @cached_property
    def position(self) -> Column:
        """Of each node its place in the file."""
        return self.column("position")

    @cached_property
    def first_input(self) -> Column:
        """Where the inputs of each node begin."""
        return self.column("first_input")

    @cached_property
    def inputs(self) -> Column:
        """The nodes that are read, row after row; MISSING where an input names none."""
        return self.column("input")

    @cached_property
    def input_port(self) -> Column:
        """Of each input the output that is read; `references.CONTROL` where the node is only waited for."""
        return self.column("input_port")

    @cached_property
    def first_reader(self) -> Column:
        """Where the readers of each node begin."""
        return self.column("first_reader")

    @cached_property
    def readers(self) -> Column:
        """The nodes that read each node, row after row."""
        return self.column("reader")

    @cached_property
    def first_tensor(self) -> Column:
        """Where the outputs of each node begin."""
        return self.column("first_tensor")

    @cached_property
    def tensor_bytes(self) -> Column:
        """The bytes of each output; 0 where they are not known."""
        return self.column("tensor_bytes")

    def inputs_of(self, node: int) -> Column:
        """The nodes that a node reads."""
        return self.inputs[int(self.first_input[node]) : int(self.first_input[node + 1])]

    def ports_of(self, node: int) -> Column:
        """The port of each input of a node."""
        return self.input_port[int(self.first_input[node]) : int(self.first_input[node + 1])]

    def readers_of(self, node: int) -> Column:
        """The nodes that read a node."""
        return self.readers[int(self.first_reader[node]) : int(self.first_reader[node + 1])]

    def bytes_of(self, node: int) -> int:
        """What all outputs of a node take, as far as it is known."""
        return int(self.tensor_bytes[int(self.first_tensor[node]) : int(self.first_tensor[node + 1])].sum())

    def bytes_between(self, low: int, high: int) -> int:
        """What the outputs of a range of nodes take together."""
        return int(self.tensor_bytes[int(self.first_tensor[low]) : int(self.first_tensor[high])].sum())

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
        """Where a node lies in the file: begin and end."""
        start = int(self._start[node])
        return start, start + int(self._length[node])

    @cached_property
    def _start(self) -> Column:
        return self.column("start")

    @cached_property
    def _length(self) -> Column:
        return self.column("length")

    # -- scopes ---------------------------------------------------------------------------------------

    @cached_property
    def scope_parent(self) -> Column:
        """Of each scope the one it lies in; a root lies in itself."""
        return self.column("scope_parent")

    @cached_property
    def scope_leaf(self) -> Column:
        """Of each scope the number of its own name."""
        return self.column("scope_leaf")

    @cached_property
    def scope_size(self) -> Column:
        """How many scopes each scope is, those within and itself."""
        return self.column("scope_size")

    @cached_property
    def scope_first(self) -> Column:
        """The first node of each scope."""
        return self.column("scope_first")

    @cached_property
    def scope_last(self) -> Column:
        """Behind the last node of each scope."""
        return self.column("scope_last")

    @cached_property
    def scope_direct(self) -> Column:
        """How many nodes each scope has directly."""
        return self.column("scope_direct")

    @cached_property
    def part_root(self) -> Column:
        """The root scope of each part."""
        return self.column("part_root")

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
        """The nodes of a part: the first, and behind the last."""
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
        """The distinct names of scopes and leaves, one after the other."""
        return open_column(self.folder / "texts", "|u1")

    @cached_property
    def texts_first(self) -> Column:
        """Where each text begins."""
        return self.column("texts_first")

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
        """The names of some nodes; those of one scope are put together once."""
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
        """The path of a scope, by way of those that are known; it and all above it are known then."""
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
        """The scope of a name, "" being the root; None if there is none."""
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
        """The node of a name; None if there is none."""
        nodes, known = self.find_all([name], part)
        return int(nodes[0]) if known[0] else None

    def find_all(self, names: Sequence[str], part: int = 0) -> tuple[Ids, Mask]:
        """The nodes of some names, and which of them there are."""
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
        """The number of a text; None if nothing is called so."""
        hashes, wanted = self.column("texts_hash"), np.uint64(hash_text(text))
        place = int(np.searchsorted(hashes, wanted))
        if place == len(hashes) or hashes[place] != wanted:
            return None
        return int(self.column("texts_by_hash")[place])

    def _texts(self, name: str) -> list[str]:
        content = (self.folder / name).read_bytes()
        first = self.column(f"{name}_first").tolist()
        return [content[low:high].decode(errors="replace") for low, high in pairwise(first)]

    def __repr__(self) -> str:
        return (
            f"<Atlas of {self.source.path.name}, {self.source.label}: {len(self):,} nodes, {self.edge_count:,} edges>"
        )
