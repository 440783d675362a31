"""Parquet and Arrow files as rows that are read block by block: a row group, or a record batch, at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.feed.readers.block_slots import BlockSlots
from lowtide.feed.readers.files import find_files
from lowtide.feed.readers.samples import Indices, Mask, Rows, SampleField

_ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
# The overhead of one text as a Python object.
_TEXT_BYTES = 64


@dataclass(frozen=True)
class RowBlock:
    """Rows that are read together: a row group of a Parquet file, or a record batch of an Arrow file."""

    path: str
    number: int
    rows: int
    first: int
    """The index of its first row in its file."""


@dataclass
class TableFiles:
    """The rows of files with the same columns."""

    row_blocks: list[RowBlock]
    fields: list[SampleField]
    row_bytes: int
    """The size of a row, at most."""
    largest_block_bytes: int
    problems: list[str]
    """Files that were left out, and why."""
    _damaged: dict[int, str] = field(default_factory=dict, init=False)
    """Why a block cannot be read, by its number."""

    def __post_init__(self) -> None:
        self._first = np.concatenate([[0], np.cumsum(self.blocks)]).astype(np.int64)
        self.keep_blocks(1)

    @property
    def count(self) -> int:
        return int(self._first[-1])

    @property
    def blocks(self) -> list[int]:
        return [block.rows for block in self.row_blocks]

    @property
    def largest_column_bytes(self) -> int:
        """The size of one column of the largest block."""
        return max(self.blocks) * max(
            _TEXT_BYTES + self.row_bytes if each.dtype.hasobject else each.dtype.itemsize for each in self.fields
        )

    def keep_blocks(self, blocks: int) -> None:
        """Set the number of blocks that are kept in memory."""
        dtypes = [*(each.dtype for each in self.fields), np.dtype(np.bool_)]
        self._slots = BlockSlots(dtypes, len(self.row_blocks), blocks, max(self.blocks), self._load)

    def read(self, samples: Indices) -> tuple[list[Rows], Mask]:
        blocks = np.searchsorted(self._first, samples, side="right") - 1
        *columns, missing = self._slots.take(blocks, samples - self._first[blocks])
        return columns, missing

    def _block_of(self, sample: int) -> int:
        return int(np.searchsorted(self._first, sample, side="right")) - 1

    def where(self, sample: int) -> str:
        number = self._block_of(sample)
        block = self.row_blocks[number]
        return f"row {block.first + sample - int(self._first[number])} of {block.path}"

    def reason(self, sample: int) -> str:
        return self._damaged.get(self._block_of(sample), "a value is missing")

    def _load(self, number: int) -> Iterator[Rows]:
        """Yield the columns of a block one after the other, and then a mask of the rows that lack a value."""
        block = self.row_blocks[number]
        missing = np.zeros(block.rows, np.bool_)
        columns = _read_block(block, [each.name for each in self.fields])
        unread = list(self.fields)
        try:
            for each, column in zip(self.fields, columns, strict=True):
                if column.null_count:
                    missing |= column.is_null().to_numpy()
                    column = column.fill_null("" if each.dtype.hasobject else each.dtype.type(0).item())
                values = _to_numpy(column, each.dtype)
                del unread[0]
                yield values
        except LowtideError as error:
            self._damaged[number] = error.problem
            missing[:] = True
            yield from (np.zeros(block.rows, each.dtype) for each in unread)
        yield missing


def open_table(
    source: str | os.PathLike[str] | Sequence[str], columns: Sequence[str] | None, label: str | None, skip: bool
) -> TableFiles:
    """Open files that match a pattern; with `skip`, files that cannot be read are left out."""
    paths = find_files(source)
    blocks: list[RowBlock] = []
    fields: list[SampleField] | None = None
    row_bytes = largest = 0
    problems: list[str] = []
    for path in paths:
        try:
            schema, groups = _read_schema(path)
        except LowtideError as error:
            if not skip:
                raise
            problems.append(f"{error.problem}; all of its rows are left out")
            continue
        columns = columns or schema.names
        own = _choose_fields(path, schema, columns, label)
        if fields is not None and own != fields:
            other = next(mine for mine, known in zip(own, fields, strict=True) if mine != known)
            raise LowtideError(
                f"column {other.name} of {path} is of another type than in {paths[0]}", given=other.dtype
            )
        fields = own
        numbers = sum(each.dtype.itemsize for each in own)
        texts = sum(_TEXT_BYTES for each in own if each.dtype.hasobject)
        first = 0
        for number, (rows, group_bytes) in enumerate(groups):
            if rows:
                blocks.append(RowBlock(path, number, rows, first))
            first += rows
            own_row_bytes = numbers + texts + (-(-group_bytes // max(rows, 1)) if texts else 0)
            row_bytes, largest = max(row_bytes, own_row_bytes), max(largest, own_row_bytes * rows + rows)
    if not blocks or fields is None:
        raise LowtideError("there are no rows", given=", ".join(problems or paths[:5]), cure="check the files")
    return TableFiles(blocks, fields, row_bytes, largest, problems)


def _choose_fields(path: str, schema: Any, columns: Sequence[str], label: str | None) -> list[SampleField]:
    wanted = [*columns, *([label] if label is not None and label not in columns else [])]
    absent = [name for name in wanted if name not in schema.names]
    if absent:
        raise LowtideError(
            f"{path} has no column {absent[0]}", given=", ".join(schema.names), cure="give one of its columns"
        )
    return [_field(schema.field(name), path) for name in wanted]


def _read_schema(path: str) -> tuple[Any, list[tuple[int, int]]]:
    """Return the schema of a file, and the rows and bytes of each of its blocks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.endswith(_ARROW_SUFFIXES) and not _is_parquet(path):
        raise LowtideError(
            f"{path} is no Parquet or Arrow file", cure="convert it: pandas.read_csv(path).to_parquet(...), for example"
        )
    try:
        if path.endswith(_ARROW_SUFFIXES):
            with pa.memory_map(path) as mapped:
                reader = pa.ipc.open_file(mapped)
                batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
                return reader.schema, [(batch.num_rows, batch.nbytes) for batch in batches]
        with pq.ParquetFile(path) as file:
            meta = file.metadata
            groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
            return file.schema_arrow, [(group.num_rows, group.total_byte_size) for group in groups]
    except (OSError, pa.ArrowInvalid) as error:
        raise LowtideError(f"{path} cannot be read: {error}", cure="write it again; it may be truncated") from error


def _is_parquet(path: str) -> bool:
    """Whether a file begins as Parquet files do; one that cannot be opened is for the reader to complain about."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return True


def _read_block(block: RowBlock, names: list[str]) -> Iterator[Any]:
    """Yield the columns of a block one at a time, so that only one of them is in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if block.path.endswith(_ARROW_SUFFIXES):
            with pa.memory_map(block.path) as mapped:
                batch = pa.ipc.open_file(mapped).get_batch(block.number)
                yield from pa.Table.from_batches([batch]).select(names).columns
            return
        with pq.ParquetFile(block.path, memory_map=True) as file:
            for name in names:
                yield file.read_row_group(block.number, [name], use_threads=False).column(name)
    except (OSError, pa.ArrowInvalid) as error:
        where = f"rows {block.first:,} to {block.first + block.rows - 1:,} of {block.path}"
        raise LowtideError(f"{where} cannot be read: {error}", cure="write the file again") from error
    finally:
        # Arrow keeps freed memory for a while.
        pa.default_memory_pool().release_unused()


def _field(column: Any, path: str) -> SampleField:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return SampleField(column.name, (), np.dtype(object))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return SampleField(column.name, (), np.dtype(np.int64))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return SampleField(column.name, (), np.dtype(kind.to_pandas_dtype()))
    raise LowtideError(
        f"column {column.name} of {path} is neither a number nor a text",
        given=kind,
        cure="leave it out with columns=[...]",
    )


def _to_numpy(column: Any, dtype: np.dtype[Any]) -> Rows:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: Rows = column.to_numpy().astype(dtype, copy=False)
    return values
