"""Build an index from a GraphDef: one pass over the file in batches of nodes, then everything is put in scope order."""

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

from lowtide.atlas.index.arrays import Bytes, Column, Hashes, Ids, Indices
from lowtide.atlas.index.columns import ColumnWriter, MappedFile, trim_memory
from lowtide.atlas.index.names import NameBatch, ScopeTable
from lowtide.atlas.index.node_spans import (
    ARGUMENT,
    CONTROL_RETURNED,
    LEAST_BATCH_BYTES,
    NODE,
    NODE_ATTRIBUTE,
    NODE_DEVICE,
    NODE_INPUT,
    NODE_NAME,
    NODE_OP,
    RETURNED,
    GraphScan,
    SpanBatch,
    batch_bytes,
)
from lowtide.atlas.index.references import CONTROL, read_references
from lowtide.atlas.index.scope_order import UnorderedNodes, write_scope_order
from lowtide.atlas.index.shared_attributes import read_distinct_outputs
from lowtide.atlas.index.text import TextPool, hash_spans, hash_text
from lowtide.progress import Progress, ProgressCallback
from lowtide.sources.protobuf.wire import VARINT
from lowtide.sources.protobuf.wire_columns import Fields, scan
from lowtide.units import format_count

RETURN_SOURCE = 2
ARGUMENT_TYPE = 3

# The ops of a function's arguments and results, as in the graphs that TensorFlow runs.
_OP_OF_ROW = {ARGUMENT: "_Arg", RETURNED: "_Retval", CONTROL_RETURNED: "_Retval"}

# Threads parse batches while the main thread scans on and numbers the batches before: most of the time is spent in
# NumPy, which releases the GIL. Each thread needs several times the memory of a batch, so a small graph gets one.
_THREADS, _THREADS_OF_SMALL = 2, 1


def build(path: Path, start: int, end: int, folder: Path, on_progress: ProgressCallback) -> dict[str, Any]:
    """Write the columns of the GraphDef in `path[start:end]` into `folder`, and return the header."""
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
            for rows in _in_order(threads, count, partial(read_batch, source.data), graph_scan.batches()):
                _append(source.data, rows, raw)
                source.release_pages()
                on_progress(Progress("reading nodes", 0.8 * (graph_scan.position - start) / size, 1, raw.count))
        raw.parts, raw.notes = graph_scan.parts, [*graph_scan.notes, *_damage_notes(raw)]

        def begin(stage: str, share: float) -> None:
            # Each stage allocates its own tables; memory freed by the threads of the stage before is returned first.
            trim_memory()
            on_progress(Progress(stage, 0.8 + 0.2 * share, 1, raw.count))

        header = write_scope_order(raw, begin)
    finally:
        source.close()
    return {**header, "seconds": time.monotonic() - began}


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A parsed batch: everything that does not depend on the batches before it."""

    batch: SpanBatch
    names: NameBatch
    op: tuple[Indices, Indices, Hashes]
    """Start, end and hash of each row's op."""
    device: tuple[Indices, Indices, Hashes]
    columns: dict[str, Column]
    callers: Indices
    callees: Hashes
    broken: int


def read_batch(data: Bytes, batch: SpanBatch) -> ReadBatch:
    """Parse the rows of a batch."""
    fields = scan(data, batch.start, batch.end)
    count = len(batch.start)
    is_node = batch.made_from == NODE
    name_start, name_end = _last_span(fields.of(NODE_NAME), batch.start)
    names = NameBatch.of(data, name_start, name_end, batch.part)
    op_start, op_end = _last_span(fields.of(NODE_OP), batch.start)
    # In rows that are not nodes the field has another meaning.
    op_end = np.where(is_node, op_end, op_start)
    op = hash_spans(data, op_start, op_end)
    for made_from, text in _OP_OF_ROW.items():
        op[batch.made_from == made_from] = hash_text(text)
    outputs = read_distinct_outputs(data, count, _attributes(fields, batch), op)
    dtype = outputs.dtype.copy()
    typed = fields.of(ARGUMENT_TYPE, VARINT)
    typed = typed.where(batch.made_from[typed.owner] == ARGUMENT)
    dtype[typed.owner] = np.clip(typed.start, 0, 255)
    inputs = _inputs(fields, batch)
    references = read_references(data, inputs.start, inputs.end, batch.part[inputs.owner])
    port = references.port
    port[batch.made_from[inputs.owner] == CONTROL_RETURNED] = CONTROL
    device_start, device_end = _last_span(fields.of(NODE_DEVICE), batch.start)
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


def _append(data: Bytes, rows: ReadBatch, raw: UnorderedNodes) -> None:
    """Number the scopes, ops and devices of a batch, and append its rows to the columns."""
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
    """Return the number of each row's op in the pool."""
    made_from = rows.batch.made_from
    is_node = made_from == NODE
    if is_node.all():
        return pool.add(data, *rows.op)
    number = np.zeros(len(is_node), np.uint32)
    number[is_node] = pool.add(data, *(column[is_node] for column in rows.op))
    # The ops of arguments and results are not in the file.
    for kind, op in _OP_OF_ROW.items():
        is_kind = made_from == kind
        text = np.frombuffer(op.encode(), np.uint8)
        number[is_kind] = pool.add(text, np.zeros(1, np.int64), np.array([len(text)]))[0] if is_kind.any() else 0
    return number


def _in_order(
    threads: ThreadPoolExecutor, count: int, work: Callable[[SpanBatch], ReadBatch], batches: Iterable[SpanBatch]
) -> Iterator[ReadBatch]:
    """Yield the result of `work` for each batch, in order, while `count` threads compute the next ones."""
    ahead: deque[Future[ReadBatch]] = deque()
    for batch in batches:
        ahead.append(threads.submit(work, batch))
        if len(ahead) > count:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _last_span(fields: Fields, absent: Indices) -> tuple[Indices, Indices]:
    """Return the span of a text field of each message: the last one, or an empty span where there is none."""
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


def _damage_notes(raw: UnorderedNodes) -> list[str]:
    notes = []
    if raw.broken:
        notes.append(
            format_count(raw.broken, "node is damaged and was read in part", "nodes are damaged and were read in part")
        )
    if raw.nameless:
        notes.append(f"{format_count(raw.nameless, 'node has', 'nodes have')} no name")
    return notes
