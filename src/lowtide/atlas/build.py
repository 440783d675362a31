"""An index from a GraphDef: the file is walked once, a batch of nodes at a time, then all is put into scope order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.atlas.alike import read_alike
from lowtide.atlas.arrange import arrange
from lowtide.atlas.columns import Mapped, Writer
from lowtide.atlas.names import Scopes
from lowtide.atlas.references import read_references
from lowtide.atlas.text import Bytes, Hashes, Numbers, Places, Pool, hash_of, hash_pieces
from lowtide.atlas.walk import ARGUMENT, CONTROL_RETURNED, NODE, RETURNED, Batch, Walk
from lowtide.sources.wire import VARINT
from lowtide.sources.wire_columns import Fields, scan

NODE_NAME, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTRIBUTE = 1, 2, 3, 4, 5
RETURN_NAME, RETURN_SOURCE = 1, 2
ARGUMENT_TYPE = 3

# What stands for a function's arguments and results, as in the graph that TensorFlow runs.
_STANDS_FOR = {ARGUMENT: "_Arg", RETURNED: "_Retval", CONTROL_RETURNED: "_Retval"}

Tell = Callable[[str, float, int], None]
"""Hears of progress: the stage, how far it is of 1, and how many nodes there are so far."""


@dataclass
class Raw:
    """What was read from the file, before it is put in order."""

    writer: Writer
    scopes: Scopes
    ops: Pool
    devices: Pool
    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0
    broken: int = 0
    nameless: int = 0


def build(path: Path, start: int, end: int, folder: Path, tell: Tell) -> dict[str, Any]:
    """Write the columns of the GraphDef in `path[start:end]` into `folder`, and return what the header says of them."""
    began = time.monotonic()
    source = Mapped(path)
    try:
        walk = Walk(source.data, start, end)
        raw = Raw(Writer(folder), Scopes(folder / "texts"), Pool(folder / "ops"), Pool(folder / "devices"))
        size = max(min(end, len(source.data)) - start, 1)
        for batch in walk.batches():
            _read(source.data, batch, raw)
            source.forget()
            tell("reading nodes", 0.8 * (walk.position - start) / size, raw.count)
        raw.parts, raw.notes = walk.parts, [*walk.notes, *_complaints(raw)]
        header = arrange(raw, source.data, lambda stage, share: tell(stage, 0.8 + 0.2 * share, raw.count))
    finally:
        source.close()
    return {**header, "seconds": time.monotonic() - began}


def _read(data: Bytes, batch: Batch, raw: Raw) -> None:
    """Read the nodes of a batch and add them to the columns."""
    fields = scan(data, batch.start, batch.end)
    count = len(batch.start)
    name_start, name_end = _last(fields.of(NODE_NAME), count, batch.start)
    named = raw.scopes.add(data, name_start, name_end, batch.part)
    op, op_hash = _ops(data, batch, fields, raw.ops)
    outputs = read_alike(data, count, _attributes(fields, batch), op_hash)
    dtype = outputs.dtype.copy()
    typed = fields.of(ARGUMENT_TYPE, VARINT)
    typed = typed.where(batch.made_from[typed.owner] == ARGUMENT)
    dtype[typed.owner] = np.clip(typed.start, 0, 255)
    inputs = _inputs(fields, batch)
    references = read_references(data, inputs.start, inputs.end, batch.part[inputs.owner])
    port = references.port
    port[batch.made_from[inputs.owner] == CONTROL_RETURNED] = 0xFFFF
    device_start, device_end = _last(fields.of(NODE_DEVICE), count, batch.start)
    # Of other rows than nodes the same field means something else.
    device_end = np.where(batch.made_from == NODE, device_end, device_start)
    columns = {
        "hash": np.where(batch.made_from >= RETURNED, ~named.hash, named.hash),
        "scope": named.scope,
        "leaf": named.leaf,
        "op": op,
        "device": raw.devices.add(data, device_start, device_end),
        "made_from": batch.made_from,
        "dtype": dtype,
        "start": batch.start,
        "length": (batch.end - batch.start),
        "input_count": np.bincount(inputs.owner, minlength=count).astype(np.uint32),
        "output_count": outputs.count.astype(np.uint32),
        "tensor_bytes": outputs.bytes,
        "tensor_sized": outputs.is_sized,
        "reference": references.hash,
        "port": port,
    }
    for name, values in columns.items():
        raw.writer.append(name, values)
    caller, start, end = outputs.calls
    raw.writer.append("caller", caller + raw.count)
    raw.writer.append("callee", hash_pieces(data, start, end))
    raw.count += count
    raw.broken += len(fields.broken)
    raw.nameless += int(np.count_nonzero(name_start == name_end))


def _last(fields: Fields, count: int, absent: Places) -> tuple[Places, Places]:
    """Where a text field of each message lies; the last one counts, and one that is not there is empty."""
    start, end = absent.copy(), absent.copy()
    start[fields.owner], end[fields.owner] = fields.start, fields.end
    return start, end


def _ops(data: Bytes, batch: Batch, fields: Fields, pool: Pool) -> tuple[Numbers, Hashes]:
    """The op of each row, as a number of the pool and as a hash."""
    is_node = batch.made_from == NODE
    start, end = _last(fields.of(NODE_OP), len(is_node), batch.start)
    end = np.where(is_node, end, start)
    hashes = hash_pieces(data, start, end)
    if is_node.all():
        return pool.add(data, start, end), hashes
    # Texts that are in no file are appended to what is given to the pool.
    number = np.zeros(len(is_node), np.uint32)
    number[is_node] = pool.add(data, start[is_node], end[is_node])
    for made_from, op in _STANDS_FOR.items():
        rows = batch.made_from == made_from
        text = np.frombuffer(op.encode(), np.uint8)
        number[rows] = pool.add(text, np.zeros(1, np.int64), np.array([len(text)]))[0] if rows.any() else 0
        hashes[rows] = hash_of(op)
    return number, hashes


def _attributes(fields: Fields, batch: Batch) -> Fields:
    attributes = fields.of(NODE_ATTRIBUTE)
    return attributes.where(batch.made_from[attributes.owner] == NODE)


def _inputs(fields: Fields, batch: Batch) -> Fields:
    made_from = batch.made_from[fields.owner]
    is_input = (made_from == NODE) & (fields.number == NODE_INPUT)
    is_input |= (made_from >= RETURNED) & (fields.number == RETURN_SOURCE)
    return fields.where(is_input & (fields.kind == 2))


def _complaints(raw: Raw) -> list[str]:
    notes = []
    if raw.broken:
        notes.append(f"{raw.broken:,} nodes are damaged and read as far as they go")
    if raw.nameless:
        notes.append(f"{raw.nameless:,} nodes have no name")
    return notes
