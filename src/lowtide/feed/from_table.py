"""`lt.feed.table`: a dataset over the rows of Parquet and Arrow files, within a budget."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from lowtide.errors import LowtideError
from lowtide.feed.pipeline.bookmark import Bookmark
from lowtide.feed.pipeline.options import (
    RAISE,
    SKIP,
    ShardGiven,
    check_batch,
    check_on_error,
    chosen_seed,
    processors,
    sharded,
)
from lowtide.feed.pipeline.order import LISTED_BYTES, InTurn, InWindows, Order, Places
from lowtide.feed.pipeline.pipeline import Feed, make_dataset
from lowtide.feed.pipeline.sizing import choose_sizes, in_runs
from lowtide.feed.readers.array_files import Rows
from lowtide.feed.readers.array_samples import Field, Missing
from lowtide.feed.readers.block_slots import Slots
from lowtide.feed.readers.files import matching
from lowtide.units import parse_bytes

# A text column takes this for each value besides its bytes, as Python has it.
_TEXT_BYTES = 64


@dataclass(frozen=True)
class Block:
    """Rows that are read together: a row group of a Parquet file, or a batch of an Arrow file."""

    path: str
    number: int
    rows: int
    first: int
    """The number of its first row in its file."""


@dataclass
class Table:
    """The rows of files with the same columns."""

    parts: list[Block]
    fields: list[Field]
    problems: list[str]
    """Files that were left out, and why."""
    _damaged: dict[int, str] = field(default_factory=dict, init=False)
    """Of a block that cannot be read, why."""

    def __post_init__(self) -> None:
        self._first = np.concatenate([[0], np.cumsum(self.blocks)]).astype(np.int64)
        self.keep(1)

    @property
    def count(self) -> int:
        return int(self._first[-1])

    @property
    def blocks(self) -> list[int]:
        return [part.rows for part in self.parts]

    def keep(self, blocks: int) -> None:
        """Keep so many blocks that were read."""
        dtypes = [*(each.dtype for each in self.fields), np.dtype(np.bool_)]
        self._slots = Slots(dtypes, len(self.parts), blocks, max(self.blocks), self._load)

    def read(self, places: Places) -> tuple[list[Rows], Missing]:
        which = np.searchsorted(self._first, places, side="right") - 1
        *columns, missing = self._slots.take(which, places - self._first[which])
        return columns, missing

    def _block(self, sample: int) -> int:
        return int(np.searchsorted(self._first, sample, side="right")) - 1

    def where(self, sample: int) -> str:
        number = self._block(sample)
        part = self.parts[number]
        return f"row {part.first + sample - int(self._first[number])} of {part.path}"

    def reason(self, sample: int) -> str:
        return self._damaged.get(self._block(sample), "a value is missing")

    def _load(self, number: int) -> Iterator[Rows]:
        """The columns of a block, one after the other, and then which of its rows lack a value."""
        part = self.parts[number]
        missing = np.zeros(part.rows, np.bool_)
        columns = _read_block(part, [each.name for each in self.fields])
        waiting = list(self.fields)
        try:
            for each, column in zip(self.fields, columns, strict=True):
                if column.null_count:
                    missing |= column.is_null().to_numpy()
                    column = column.fill_null("" if each.dtype.hasobject else _zero(each.dtype))
                values = _values(column, each.dtype)
                del waiting[0]
                yield values
        except LowtideError as error:
            self._damaged[number] = error.problem
            missing[:] = True
            yield from (np.zeros(part.rows, each.dtype) for each in waiting)
        yield missing


def table(
    source: str | os.PathLike[str] | Sequence[str],
    *,
    batch_size: int,
    budget: str | int,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: ShardGiven = None,
    on_error: str = "raise",
    bookmark: Bookmark | None = None,
) -> tf.data.Dataset:
    """Batches of rows of Parquet or Arrow files, as dicts of columns, or as pairs where one of them is the `label`.

    `source` is a pattern such as "events/*.parquet", or a list of paths. Rows are read a row group at a time, and
    shuffled on two levels: the order of row groups, then the rows of as many groups as the budget has room for.
    A row that lacks a value is an error that names it, and so is a row group or a file that cannot be read;
    `on_error="skip"` leaves it out.
    """
    check_batch(batch_size)
    check_on_error(on_error)
    found, row, largest = open_table(source, columns, label, skip=on_error == SKIP)
    if shuffle:
        largest += LISTED_BYTES * max(found.blocks)
    # In the order of the files a batch is in two groups at most; shuffled it may have rows in as many as a window has.
    sizing = choose_sizes(parse_bytes(budget), batch_size * row, processors(), 2 * largest)
    # A block is there twice while it is read.
    kept = sizing.window_bytes // largest - 1
    found.keep(kept)
    order: Order = InTurn(found.count)
    if shuffle:
        order = InWindows(found.blocks, kept * max(found.blocks), chosen_seed(seed, bookmark), kept)
    if on_error == RAISE:
        # Where rows are left out, it is not known where batches end in a run.
        sizing = in_runs(sizing)
    feed = Feed(found, sharded(order, shard), batch_size, drop_remainder, sizing, bookmark, on_error)
    feed.problems += found.problems
    names = [each.name for each in found.fields]
    inputs = {name: number for number, name in enumerate(names) if name != label}
    return make_dataset(feed, found, inputs if label is None else (inputs, names.index(label)))


def open_table(source: Any, columns: Sequence[str] | None, label: str | None, skip: bool) -> tuple[Table, int, int]:
    """The rows of files, what a row takes at most, and what the largest block takes."""
    paths = matching(source)
    parts: list[Block] = []
    fields: list[Field] | None = None
    row = largest = 0
    problems: list[str] = []
    for path in paths:
        try:
            schema, groups = _look(path)
        except LowtideError as error:
            if not skip:
                raise
            problems.append(f"{error.problem}; all of its rows are left out")
            continue
        columns = columns or schema.names
        wanted = [
            *columns,
            *([label] if label is not None and label not in columns else []),
        ]
        absent = [name for name in (*wanted, *([label] if label else [])) if name not in schema.names]
        if absent:
            raise LowtideError(
                f"{path} has no column {absent[0]}", given=", ".join(schema.names), cure="give one of its columns"
            )
        own = [_field(schema.field(name), path) for name in wanted]
        if fields is not None and own != fields:
            odd = next(mine for mine, known in zip(own, fields, strict=True) if mine != known)
            raise LowtideError(f"column {odd.name} of {path} is of another type than in {paths[0]}", given=odd.dtype)
        fields = own
        first = 0
        for number, (rows, texts) in enumerate(groups):
            if rows:
                parts.append(Block(path, number, rows, first))
            first += rows
            fixed = sum(each.dtype.itemsize for each in own)
            text = sum(_TEXT_BYTES for each in own if each.dtype.hasobject)
            each_row = fixed + text + (-(-texts // max(rows, 1)) if text else 0)
            row, largest = max(row, each_row), max(largest, each_row * rows + rows)
    if not parts or fields is None:
        raise LowtideError("there are no rows", given=", ".join(problems or paths[:5]), cure="check the files")
    return Table(parts, fields, problems), row, largest


def _look(path: str) -> tuple[Any, list[tuple[int, int]]]:
    """The columns of a file, and of each of its blocks the rows and the bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.endswith((".arrow", ".feather", ".ipc")):
            with pa.memory_map(path) as mapped:
                reader = pa.ipc.open_file(mapped)
                batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
                return reader.schema, [(batch.num_rows, batch.nbytes) for batch in batches]
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
            return file.schema_arrow, [(group.num_rows, group.total_byte_size) for group in groups]
    except (OSError, pa.ArrowInvalid) as error:
        raise LowtideError(f"{path} cannot be read: {error}", cure="write it again; it may be cut off") from error


def _read_block(part: Block, names: list[str]) -> Iterator[Any]:
    """The columns of a block, one at a time, so that the others take no memory meanwhile."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if part.path.endswith((".arrow", ".feather", ".ipc")):
            with pa.memory_map(part.path) as mapped:
                batch = pa.ipc.open_file(mapped).get_batch(part.number)
                yield from pa.Table.from_batches([batch]).select(names).columns
            return
        with pq.ParquetFile(part.path, memory_map=True) as file:
            for name in names:
                yield file.read_row_group(part.number, [name], use_threads=False).column(name)
    except (OSError, pa.ArrowInvalid) as error:
        where = f"rows {part.first:,} to {part.first + part.rows - 1:,} of {part.path}"
        raise LowtideError(f"{where} cannot be read: {error}", cure="write the file again") from error
    finally:
        # Arrow keeps what it has freed, for a while.
        pa.default_memory_pool().release_unused()


def _field(column: Any, path: str) -> Field:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return Field(column.name, (), np.dtype(object))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return Field(column.name, (), np.dtype(np.int64))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return Field(column.name, (), np.dtype(kind.to_pandas_dtype()))
    raise LowtideError(
        f"column {column.name} of {path} is no number and no text", given=kind, cure="leave it out with columns=[...]"
    )


def _values(column: Any, dtype: np.dtype[Any]) -> Rows:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: Rows = column.to_numpy().astype(dtype, copy=False)
    return values


def _zero(dtype: np.dtype[Any]) -> Any:
    return dtype.type(0).item()
