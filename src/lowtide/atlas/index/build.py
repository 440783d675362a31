"""An index from a GraphDef: the file is walked once, a batch of nodes at a time, then all is put into scope order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.atlas.index.columns import Column, ColumnWriter, MappedFile, trim_memory
from lowtide.atlas.index.names import NameBatch, ScopeTable
from lowtide.atlas.index.node_spans import (
    ARGUMENT,
    CONTROL_RETURNED,
    LEAST_BATCH_BYTES,
    NODE,
    RETURNED,
    GraphScan,
    SpanBatch,
    batch_bytes,
)
from lowtide.atlas.index.references import read_references
from lowtide.atlas.index.scope_order import arrange
from lowtide.atlas.index.shared_attributes import read_distinct_outputs
from lowtide.atlas.index.text import Bytes, Hashes, Ids, Indices, TextPool, hash_spans, hash_text
from lowtide.atlas.index.unordered_nodes import UnorderedNodes
from lowtide.progress import Progress, ProgressCallback
from lowtide.sources.protobuf.wire import VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan

NODE_NAME, NODE_OP, NODE_INPUT, NODE_DEVICE, NODE_ATTRIBUTE = 1, 2, 3, 4, 5
RETURN_NAME, RETURN_SOURCE = 1, 2
ARGUMENT_TYPE = 3

# What stands for a function's arguments and results, as in the graph that TensorFlow runs.
_STANDS_FOR = {ARGUMENT: "_Arg", RETURNED: "_Retval", CONTROL_RETURNED: "_Retval"}

# Batches are read by threads while the file is walked on and those before are numbered: most of the time is spent in
# NumPy, which lets others work. Each takes several times a batch, for which a small graph has no room.
_THREADS, _THREADS_OF_SMALL = 2, 1


def build(path: Path, start: int, end: int, folder: Path, tell: ProgressCallback) -> dict[str, Any]:
    """Write the columns of the GraphDef in `path[start:end]` into `folder`, and return what the header says of them."""
    began = time.monotonic()
    source = MappedFile(path)
    try:
        graph_scan = GraphScan(source.data, start, end)
        raw = UnorderedNodes(
            ColumnWriter(folder), ScopeTable(folder / "texts"), TextPool(folder / "ops"), TextPool(folder / "devices")
        )
        size = max(min(end, len(source.data)) - start, 1)
        is_small = batch_bytes(size) == LEAST_BATCH_BYTES
        count = _THREADS_OF_SMALL if is_small else _THREADS
        with ThreadPoolExecutor(count) as threads:
            for rows in _in_order(threads, count, partial(read_rows, source.data), graph_scan.batches()):
                _add(source.data, rows, raw)
                source.forget()
                tell(Progress("reading nodes", 0.8 * (graph_scan.position - start) / size, 1, raw.count))
        raw.parts, raw.notes = graph_scan.parts, [*graph_scan.notes, *_complaints(raw)]

        def begin(stage: str, share: float) -> None:
            # Each stage has its own tables; what the threads of the one before had is of no use to it.
            trim_memory()
            tell(Progress(stage, 0.8 + 0.2 * share, 1, raw.count))

        header = arrange(raw, begin)
    finally:
        source.close()
    return {**header, "seconds": time.monotonic() - began}


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch, read: all that does not depend on the batches before it."""

    batch: SpanBatch
    names: NameBatch
    op: tuple[Indices, Indices, Hashes]
    """Where the text of each row's op begins and ends, and its hash."""
    device: tuple[Indices, Indices, Hashes]
    columns: dict[str, Column]
    callers: Indices
    callees: Hashes
    broken: int


def read_rows(data: Bytes, batch: SpanBatch) -> ReadBatch:
    """Read the nodes of a batch."""
    fields = scan(data, batch.start, batch.end)
    count = len(batch.start)
    is_node = batch.made_from == NODE
    name_start, name_end = _last(fields.of(NODE_NAME), count, batch.start)
    names = NameBatch.of(data, name_start, name_end, batch.part)
    op_start, op_end = _last(fields.of(NODE_OP), count, batch.start)
    # Of other rows than nodes the same field means something else.
    op_end = np.where(is_node, op_end, op_start)
    op = hash_spans(data, op_start, op_end)
    for made_from, text in _STANDS_FOR.items():
        op[batch.made_from == made_from] = hash_text(text)
    outputs = read_distinct_outputs(data, count, _attributes(fields, batch), op)
    dtype = outputs.dtype.copy()
    typed = fields.of(ARGUMENT_TYPE, VARINT)
    typed = typed.where(batch.made_from[typed.owner] == ARGUMENT)
    dtype[typed.owner] = np.clip(typed.start, 0, 255)
    inputs = _inputs(fields, batch)
    references = read_references(data, inputs.start, inputs.end, batch.part[inputs.owner])
    port = references.port
    port[batch.made_from[inputs.owner] == CONTROL_RETURNED] = 0xFFFF
    device_start, device_end = _last(fields.of(NODE_DEVICE), count, batch.start)
    device_end = np.where(is_node, device_end, device_start)
    columns = {
        "hash": np.where(batch.made_from >= RETURNED, ~names.hash, names.hash),
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
    callers, start, end = outputs.calls
    return ReadBatch(
        batch,
        names,
        (op_start, op_end, op),
        (device_start, device_end, hash_spans(data, device_start, device_end)),
        columns,
        callers,
        hash_spans(data, start, end),
        len(fields.broken),
    )


def _add(data: Bytes, rows: ReadBatch, raw: UnorderedNodes) -> None:
    """Number what the rows of a batch name, and add them to the columns."""
    scope, leaf = raw.scopes.add(data, rows.names, rows.batch.part)
    numbered: dict[str, Column] = {
        "scope": scope,
        "leaf": leaf,
        "op": _ops(data, rows, raw.ops),
        "device": raw.devices.add(data, *rows.device),
        "caller": rows.callers + raw.count,
        "callee": rows.callees,
    }
    for name, values in (rows.columns | numbered).items():
        raw.writer.append(name, values)
    raw.count += len(scope)
    raw.broken += rows.broken
    raw.nameless += int(np.count_nonzero(rows.names.start == rows.names.end))


def _ops(data: Bytes, rows: ReadBatch, pool: TextPool) -> Ids:
    """The op of each row, as a number of the pool."""
    made_from = rows.batch.made_from
    is_node = made_from == NODE
    if is_node.all():
        return pool.add(data, *rows.op)
    number = np.zeros(len(is_node), np.uint32)
    number[is_node] = pool.add(data, *(column[is_node] for column in rows.op))
    # What stands for arguments and results is in no file.
    for kind, op in _STANDS_FOR.items():
        alike = made_from == kind
        text = np.frombuffer(op.encode(), np.uint8)
        number[alike] = pool.add(text, np.zeros(1, np.int64), np.array([len(text)]))[0] if alike.any() else 0
    return number


def _in_order(
    threads: ThreadPoolExecutor, count: int, work: Callable[[SpanBatch], ReadBatch], batches: Iterable[SpanBatch]
) -> Iterator[ReadBatch]:
    """What the work gives for each batch, in their order; as many as there are threads are at work meanwhile."""
    ahead: deque[Future[ReadBatch]] = deque()
    for batch in batches:
        ahead.append(threads.submit(work, batch))
        if len(ahead) > count:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _last(fields: Fields, count: int, absent: Indices) -> tuple[Indices, Indices]:
    """Where a text field of each message lies; the last one counts, and one that is not there is empty."""
    start, end = absent.copy(), absent.copy()
    start[fields.owner], end[fields.owner] = fields.start, fields.end
    return start, end


def _attributes(fields: Fields, batch: SpanBatch) -> Fields:
    attributes = fields.of(NODE_ATTRIBUTE)
    return attributes.where(batch.made_from[attributes.owner] == NODE)


def _inputs(fields: Fields, batch: SpanBatch) -> Fields:
    made_from = batch.made_from[fields.owner]
    is_input = (made_from == NODE) & (fields.number == NODE_INPUT)
    is_input |= (made_from >= RETURNED) & (fields.number == RETURN_SOURCE)
    return fields.where(is_input & (fields.kind == 2))


def _complaints(raw: UnorderedNodes) -> list[str]:
    notes = []
    if raw.broken:
        notes.append(f"{raw.broken:,} nodes are damaged and read as far as they go")
    if raw.nameless:
        notes.append(f"{raw.nameless:,} nodes have no name")
    return notes
