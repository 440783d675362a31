"""`lt.predict_in_batches`: a model over a set larger than memory, with the answers in a file as they come."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
from numpy.lib import format as npy

from lowtide.errors import LowtideError
from lowtide.feed.array_files import open_array
from lowtide.feed.bookmark import Bookmark
from lowtide.feed.files import write_json
from lowtide.feed.from_arrays import arrays
from lowtide.feed.pipeline import feed_of
from lowtide.units import parse_bytes

# Of a budget so much is for one batch: several are read, ready and in use.
_BATCHES = 8
_MOST_IN_A_BATCH = 1024
# The answers are safe on the disk every so many batches.
_SAVED_EVERY = 32


def predict_in_batches(
    model: Any,
    source: Any,
    *,
    to: str | os.PathLike[str],
    budget: str | int = "512MiB",
    batch_size: int | None = None,
    resume: bool = True,
    progress: bool = True,
) -> np.memmap[Any, Any]:
    """What the model answers to each sample, as a mapped array in the file `to`, in the order of the samples.

    `source` is what `lt.feed.arrays` takes, or a dataset that gives the same batches in the same order each time. If
    the process ends before the work does, the same call goes on where it was.
    """
    to = Path(to)
    if isinstance(source, tf.data.Dataset):
        data, count, name = source, None, "dataset"
    else:
        data, count, name, batch_size = _open(source, budget, batch_size)
    job = _Job(to, {"source": name, "samples": count, "batch_size": batch_size}, resume)
    if job.is_done:
        return job.result()
    total = len(data) if data.cardinality() >= 0 else None
    batches = _from(data, job.batches)
    with job:
        for batch in _shown(batches, total, job.batches, progress):
            job.add(_answer(model, batch))
    return job.result()


def _open(source: Any, budget: str | int, batch_size: int | None) -> tuple[Any, int, str, int]:
    """The batches of arrays; how many samples there are, what they are called, and how many are in a batch."""
    opened = [open_array(each, "x") for each in tf.nest.flatten(source)]
    row = sum(each.row_bytes for each in opened)
    room = parse_bytes(budget) // _BATCHES // max(row, 1)
    batch_size = batch_size or max(min(room, _MOST_IN_A_BATCH), 1)
    data = arrays(source, batch_size=batch_size, budget=budget, bookmark=Bookmark())
    shapes = ", ".join(f"{each.name} {each.shape} {each.dtype}" for each in opened)
    return data, opened[0].shape[0], shapes, batch_size


def _from(data: Any, first: int) -> Any:
    """The batches from some number on: of our own datasets those before are not read."""
    if first == 0:
        return data
    try:
        bookmark = feed_of(data).bookmark
    except LowtideError:
        bookmark = None
    if bookmark is None:
        return data.skip(first)
    bookmark.move_to(0, first)
    return data


def _answer(model: Any, batch: Any) -> np.ndarray:
    answer = model.predict_on_batch(batch[0] if isinstance(batch, tuple) else batch)
    if not isinstance(answer, np.ndarray):
        raise LowtideError(
            "the model has several outputs, and there is one file",
            given=type(answer).__name__,
            cure="give a keras.Model with the output that you want",
        )
    return answer


def _shown(batches: Iterable[Any], total: int | None, first: int, progress: bool) -> Iterator[Any]:
    """The batches, with a bar on the terminal."""
    if not progress:
        yield from batches
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("predicting", total=total, completed=first)
        for batch in batches:
            yield batch
            bar.advance(task)


class _Job:
    """A file of answers that grows, and beside it how far it is."""

    def __init__(self, to: Path, what: dict[str, Any], resume: bool) -> None:
        self._to, self._what = to, what
        self._part, self._state = to.with_name(f"{to.name}.part"), to.with_name(f"{to.name}.json")
        self._file: BinaryIO | None = None
        self.rows = self.batches = 0
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None
        known = self._read_state() if resume else None
        if known is not None and known["what"] != what:
            raise LowtideError(
                f"{to} was begun with something else", given=known["what"], cure="give resume=False to begin anew"
            )
        self.is_done = known is not None and known["done"] and to.exists()
        if known is not None and not known["done"] and self._part.exists():
            self.rows, self.batches = known["rows"], known["batches"]
            if known["shape"] is not None:
                self._shape, self._dtype = tuple(known["shape"]), np.dtype(known["dtype"])

    def __enter__(self) -> _Job:
        self._to.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("r+b" if self.rows else "w+b")
        if self._shape is not None and self._dtype is not None:
            # What was written behind the last save is written again.
            self._file.truncate(self._header_bytes() + self.rows * self._row_bytes())
            self._file.seek(0, os.SEEK_END)
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        assert self._file is not None
        if self._shape is not None:
            self._save()
        self._file.close()
        if kind is not None:
            return
        if self._shape is None:
            raise LowtideError("there was nothing to predict", given=self._what["source"], cure="give some samples")
        self._part.replace(self._to)
        self._write_state(done=True)

    def add(self, answer: np.ndarray) -> None:
        """Write the answers to a batch."""
        assert self._file is not None
        if self._shape is None:
            self._shape, self._dtype = answer.shape[1:], answer.dtype
            self._write_header()
        if answer.shape[1:] != self._shape or answer.dtype != self._dtype:
            raise LowtideError(
                "answers have different shapes",
                given=f"{answer.shape[1:]} {answer.dtype} after {self._shape} {self._dtype}",
                cure="give a model whose outputs are all alike",
            )
        self._file.write(np.ascontiguousarray(answer).data)
        self.rows, self.batches = self.rows + len(answer), self.batches + 1
        if self.batches % _SAVED_EVERY == 0:
            self._save()

    def result(self) -> np.memmap[Any, Any]:
        """The answers, mapped."""
        return np.load(self._to, mmap_mode="r")

    def _save(self) -> None:
        assert self._file is not None
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._write_state(done=False)

    def _write_header(self) -> None:
        """Write how many rows there are: NumPy leaves room in the header for as many as may come."""
        assert self._file is not None
        assert self._shape is not None
        assert self._dtype is not None
        self._file.seek(0)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (self.rows, *self._shape)}
        npy.write_array_header_1_0(self._file, header)
        self._file.seek(0, os.SEEK_END)

    def _header_bytes(self) -> int:
        assert self._file is not None
        self._file.seek(0)
        npy.read_magic(self._file)
        npy.read_array_header_1_0(self._file)
        return self._file.tell()

    def _row_bytes(self) -> int:
        assert self._shape is not None
        assert self._dtype is not None
        return int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize

    def _write_state(self, *, done: bool) -> None:
        content = {
            "what": self._what,
            "rows": self.rows,
            "batches": self.batches,
            "shape": self._shape,
            "dtype": None if self._dtype is None else npy.dtype_to_descr(self._dtype),
            "done": done,
        }
        write_json(self._state, content)

    def _read_state(self) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return known
