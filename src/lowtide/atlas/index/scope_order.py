"""Put the nodes in scope order: renumber them, resolve inputs to nodes, and find readers, phases and calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.atlas.index.arrays import (
    Column,
    Ids,
    Indices,
    Int32s,
    Mask,
    csr_entries,
    find_sorted,
    offsets,
    smallest_dtype,
)
from lowtide.atlas.index.columns import ColumnWriter, run_in_threads
from lowtide.atlas.index.cycles import count_cyclic_nodes
from lowtide.atlas.index.names import ScopeTable
from lowtide.atlas.index.references import MISSING
from lowtide.atlas.index.scope_tree import depth_first
from lowtide.atlas.index.step_phases import write_phases
from lowtide.atlas.index.text import TextPool, hash_text
from lowtide.units import format_count

# Edges resolved at a time, and rows moved at a time.
_CHUNK = 1 << 17
_ROWS = 1 << 16

_BeginStage = Callable[[str, float], None]


@dataclass
class UnorderedNodes:
    """The columns in the order of the file, with the tables that number scopes, ops and devices."""

    writer: ColumnWriter
    scopes: ScopeTable
    ops: TextPool
    devices: TextPool
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0
    broken: int = 0
    nameless: int = 0


def write_scope_order(raw: UnorderedNodes, begin_stage: _BeginStage) -> dict[str, Any]:
    """Write the columns in scope order, and return the header."""
    writer = raw.writer
    begin_stage("ordering scopes", 0.0)
    scope, is_head = _scope_order(raw)
    begin_stage("ordering nodes", 0.1)
    order = np.argsort(scope, kind="stable").astype(np.uint32)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    _move(raw, order, scope, is_head)
    del scope, is_head
    begin_stage("resolving inputs", 0.3)
    missing, duplicates = _edges(writer, order, rank)
    begin_stage("finding readers", 0.7)
    _readers(writer)
    begin_stage("finding phases", 0.85)
    writer.write("texts_first", raw.scopes.texts.close())
    writer.write("ops_first", raw.ops.close())
    _calls(raw, writer, rank)
    write_phases(writer, raw.parts)
    cycle_note = _find_cycles(writer)
    if missing:
        raw.notes.append(
            format_count(missing, "input names a node that does not exist", "inputs name nodes that do not exist")
        )
    if duplicates:
        raw.notes.append(f"{format_count(duplicates, 'node has', 'nodes have')} the same name as another")
    if cycle_note:
        raw.notes.append(cycle_note)
    hashes, numbers = raw.scopes.texts.numbering.columns()
    writer.write("texts_hash", hashes)
    writer.write("texts_by_hash", numbers)
    writer.write("devices_first", raw.devices.close())
    for temporary in ("hash", "reference", "caller", "callee"):
        writer.drop(temporary)
    edges = int(writer.open("first_input")[-1])
    writer.close()
    return {
        "nodes": raw.count,
        "edges": edges,
        "parts": raw.parts,
        "notes": raw.notes,
        "columns": dict(writer.dtypes),
    }


def _scope_order(raw: UnorderedNodes) -> tuple[Ids, Mask]:
    """Write the scopes in depth-first order; return the scope of each node, and which nodes are named like one."""
    writer = raw.writer
    roots = raw.scopes.roots(len(raw.parts))
    parent, leaf, hashes = raw.scopes.columns()
    scope, names = writer.read("scope"), writer.open("hash")
    tree = depth_first(parent, roots, _first_nodes(scope, len(parent)))
    order = np.argsort(tree.place)
    # A node `a/b` is shown inside the scope `a/b` if there is one.
    by_hash = np.argsort(hashes).astype(np.uint32)
    hashes = hashes[by_hash]
    is_head = np.zeros(len(scope), np.bool_)

    def look_up(low: int) -> None:
        rows, place = find_sorted(hashes, names[low : low + _CHUNK])
        is_head[low + rows] = True
        scope[low + rows] = by_hash[place]

    run_in_threads(look_up, range(0, len(scope), _CHUNK))
    writer.write("scope_parent", tree.place[parent[order]].astype(np.uint32))
    writer.write("scope_leaf", leaf[order].astype(smallest_dtype(len(raw.scopes.texts))))
    writer.write("scope_size", tree.size[order].astype(np.uint32))
    writer.write("scope_depth", tree.depth[order].astype(np.uint32))
    writer.write("part_root", tree.place[roots].astype(np.uint32))
    placed = tree.place.astype(np.uint32)[scope]
    direct = np.bincount(placed, minlength=len(parent))
    first = offsets(direct)
    behind = np.arange(len(parent)) + tree.size[order]
    writer.write("scope_first", first[:-1].astype(np.uint32))
    writer.write("scope_direct", direct.astype(np.uint32))
    writer.write("scope_last", first[behind].astype(np.uint32))
    return placed, is_head


def _first_nodes(scope: Column, count: int) -> Int32s:
    """Return the first node in the file directly in each scope; the number of nodes where there is none."""
    first = np.full(count, len(scope), np.int32)
    # Assigned in reverse, the first node remains.
    first[scope[::-1]] = np.arange(len(scope) - 1, -1, -1, dtype=np.int32)
    return first


def _move(raw: UnorderedNodes, order: Ids, scope: Column, is_head: Column) -> None:
    """Reorder the columns of nodes and of their outputs."""
    writer = raw.writer
    # A search reads these columns completely, so they have the smallest dtype.
    for name, count in (("leaf", len(raw.scopes.texts)), ("op", len(raw.ops)), ("device", len(raw.devices))):
        writer.write(name, writer.read(name).astype(smallest_dtype(count))[order])
    for name in ("made_from", "dtype", "start", "length"):
        writer.write(name, writer.read(name)[order])
    writer.write("position", order)
    writer.write("scope", scope[order])
    writer.write("is_head", is_head[order])
    counts = writer.read("output_count")
    _move_rows(writer, ("tensor_bytes", "tensor_sized"), offsets(counts), order)
    writer.write("first_tensor", offsets(counts[order]).astype(np.uint32))
    writer.drop("output_count")


def _move_rows(writer: ColumnWriter, names: tuple[str, ...], first: Column, order: Ids) -> None:
    """Reorder the rows of CSR columns, some rows at a time."""
    for name in names:
        moved, column = f"{name}_moved", writer.open(name)
        for low in range(0, max(len(order), 1), _ROWS):
            places, _ = csr_entries(first, order[low : low + _ROWS].astype(np.int64))
            writer.append(moved, column[places])
        writer.rename(moved, name)


def _edges(writer: ColumnWriter, order: Column, rank: Column) -> tuple[int, int]:
    """Write the inputs of each node in the new order; return the numbers of unresolved inputs and duplicate names."""
    hashes = writer.read("hash")
    # Results are never read by name inside their function, so their hashes are inverted. Of several nodes with one name
    # the first in the file is found.
    by_hash = np.argsort(hashes, kind="stable")
    known, node = hashes[by_hash], rank[by_hash]
    del hashes, by_hash
    duplicates = int(np.count_nonzero(known[1:] == known[:-1]))
    writer.write("name_hash", known)
    writer.write("name_node", node)
    counts = writer.read("input_count")
    writer.drop("input_count")
    first = offsets(counts)
    writer.write("first_input", offsets(counts[order]).astype(np.uint32 if first[-1] < 2**32 else np.uint64))
    missing = _resolve(writer, known, node)
    writer.rename("port", "input_port")
    del known, node
    _move_rows(writer, ("input", "input_port"), first, order)
    return missing, duplicates


def _resolve(writer: ColumnWriter, known: Column, node: Column) -> int:
    """Write the source node of each input, in the order of the file; return the number of unresolved inputs."""
    references = writer.open("reference")
    resolved = np.full(len(references), MISSING)

    def look_up(low: int) -> None:
        rows, place = find_sorted(known, references[low : low + _CHUNK])
        resolved[low + rows] = node[place]

    run_in_threads(look_up, range(0, len(resolved), _CHUNK))
    writer.write("input", resolved)
    return int(np.count_nonzero(resolved == MISSING))


def _readers(writer: ColumnWriter) -> None:
    """Write the readers of each node: the transposed edges."""
    first, inputs = writer.open("first_input"), writer.open("input")
    count = len(first) - 1
    reader_count = np.zeros(count + 1, np.int64)
    for low in range(0, len(inputs), _CHUNK):
        sources = inputs[low : low + _CHUNK]
        reader_count += np.bincount(sources[sources != MISSING], minlength=count + 1)
    first_reader = offsets(reader_count[:count])
    readers = np.empty(int(first_reader[-1]), np.uint32)
    cursor = first_reader[:-1].copy()
    for low in range(0, count, _ROWS):
        high = min(low + _ROWS, count)
        begin, end = int(first[low]), int(first[high])
        sources = inputs[begin:end]
        reader = np.repeat(np.arange(low, high, dtype=np.uint32), _lengths(first, low, high))
        known = sources != MISSING
        sources, reader = sources[known], reader[known]
        sorting = np.argsort(sources, kind="stable")
        sources, reader = sources[sorting], reader[sorting]
        distinct, at, counts = np.unique(sources, return_index=True, return_counts=True)
        within = np.arange(len(sources)) - np.repeat(at, counts)
        readers[cursor[sources] + within] = reader
        cursor[distinct] += counts
    writer.write("first_reader", first_reader.astype(first.dtype))
    writer.write("reader", readers)


def _lengths(first: Column, low: int, high: int) -> Indices:
    """Return the number of entries of each row from `low` to `high`."""
    return np.asarray(np.diff(first[low : high + 1].astype(np.int64)), np.int64)


def _calls(raw: UnorderedNodes, writer: ColumnWriter, rank: Column) -> None:
    """Write which node calls which function of the library."""
    caller, callee = writer.read("caller"), writer.read("callee")
    parts = np.array([hash_text(name) for name in raw.parts[1:]], np.uint64)
    if not len(parts) or not len(caller):
        writer.write("call_node", np.zeros(0, np.uint32))
        writer.write("call_part", np.zeros(0, np.uint32))
        return
    sorting = np.argsort(parts)
    place = np.minimum(np.searchsorted(parts[sorting], callee), len(parts) - 1)
    known = parts[sorting][place] == callee
    node, part = rank[caller[known]], (sorting[place[known]] + 1).astype(np.uint32)
    in_order = np.argsort(node, kind="stable")
    writer.write("call_node", node[in_order])
    writer.write("call_part", part[in_order])


def _find_cycles(writer: ColumnWriter) -> str | None:
    """Return a note if the graph has cycles."""
    cyclic = count_cyclic_nodes(
        *(writer.open(name) for name in ("first_input", "input", "first_reader", "reader", "position"))
    )
    return (
        format_count(cyclic, "node is on a cycle or depends on one", "nodes are on a cycle or depend on one")
        if cyclic
        else None
    )
