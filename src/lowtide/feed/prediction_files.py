"""Files of answers that grow batch by batch, and beside them how far they are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from lowtide.errors import LowtideError
from lowtide.feed.readers.files import write_json

# The answers are safe on the disk every so many batches.
_SAVED_EVERY = 32


class Answers:
    """The answers of one output in a `.npy` that has as many rows as were written."""

    def __init__(self, to: Path) -> None:
        self.to, self.part = to, to.with_name(f"{to.name}.part")
        self._file: BinaryIO | None = None
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None

    @property
    def kind(self) -> list[Any] | None:
        """The shape and the type of an answer, as they are kept in a file."""
        return None if self._dtype is None else [list(self._shape or ()), npy.dtype_to_descr(self._dtype)]

    def go_on(self, kind: list[Any]) -> None:
        """Be what was begun before."""
        self._shape, self._dtype = tuple(kind[0]), np.dtype(kind[1])

    def open(self, rows: int) -> None:
        """Open the file behind so many rows: what was written behind the last save is written again."""
        self.to.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.part.open("r+b" if rows else "w+b")
        if rows:
            self._file.truncate(self._header_bytes() + rows * self._row_bytes())
            self._file.seek(0, os.SEEK_END)

    def add(self, answer: np.ndarray) -> None:
        assert self._file is not None
        if self._dtype is None:
            self._shape, self._dtype = answer.shape[1:], answer.dtype
            self._write_header(0)
        if answer.shape[1:] != self._shape or answer.dtype != self._dtype:
            raise LowtideError(
                f"answers for {self.to} have different shapes",
                given=f"{answer.shape[1:]} {answer.dtype} after {self._shape} {self._dtype}",
                cure="give the model that it was begun with, or resume=False to begin anew",
            )
        self._file.write(np.ascontiguousarray(answer).data)

    def save(self, rows: int) -> None:
        """Bring it to the disk."""
        assert self._file is not None
        self._write_header(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        assert self._file is not None
        self._file.close()

    def result(self) -> np.memmap[Any, Any]:
        """The answers, mapped."""
        return np.load(self.to, mmap_mode="r")

    def _write_header(self, rows: int) -> None:
        """Write how many rows there are: NumPy leaves room in the header for as many as may come."""
        assert self._file is not None
        assert self._shape is not None
        assert self._dtype is not None
        self._file.seek(0)
        header = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": (rows, *self._shape)}
        npy.write_array_header_1_0(self._file, header)
        self._file.seek(0, os.SEEK_END)

    def _header_bytes(self) -> int:
        assert self._file is not None
        self._file.seek(0)
        npy.read_magic(self._file)
        npy.read_array_header_1_0(self._file)
        return self._file.tell()

    def _row_bytes(self) -> int:
        assert self._dtype is not None
        return int(np.prod(self._shape or (), dtype=np.int64)) * self._dtype.itemsize


class Job:
    """Files that grow together, one for each output."""

    def __init__(self, paths: Sequence[Path], what: dict[str, Any], resume: bool) -> None:
        self.answers = [Answers(path) for path in paths]
        self._what = what | {"files": [str(path) for path in paths]} if len(paths) > 1 else what
        self._state = paths[0].with_name(f"{paths[0].name}.json")
        self.rows = self.batches = 0
        known = self._read_state() if resume else None
        if known is not None and known["what"] != self._what:
            raise LowtideError(
                f"{paths[0]} was begun with something else",
                given=known["what"],
                cure="give resume=False to begin anew",
            )
        self.is_done = known is not None and known["done"] and all(each.to.exists() for each in self.answers)
        if known is not None and not known["done"] and all(each.part.exists() for each in self.answers):
            self.rows, self.batches = known["rows"], known["batches"]
            for each, kind in zip(self.answers, known["kinds"], strict=True):
                each.go_on(kind)

    def __enter__(self) -> Job:
        for each in self.answers:
            each.open(self.rows)
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if self.batches:
            self._save()
        for each in self.answers:
            each.close()
        if kind is not None:
            return
        if not self.batches:
            raise LowtideError("there was nothing to predict", given=self._what["source"], cure="give some samples")
        for each in self.answers:
            each.part.replace(each.to)
        self._write_state(done=True)

    def add(self, given: Sequence[np.ndarray]) -> None:
        """Write the answers to a batch."""
        for each, answer in zip(self.answers, given, strict=True):
            each.add(answer)
        self.rows, self.batches = self.rows + len(given[0]), self.batches + 1
        if self.batches % _SAVED_EVERY == 0:
            self._save()

    def _save(self) -> None:
        for each in self.answers:
            each.save(self.rows)
        self._write_state(done=False)

    def _write_state(self, *, done: bool) -> None:
        content = {"what": self._what, "rows": self.rows, "batches": self.batches, "done": done}
        write_json(self._state, content | {"kinds": [each.kind for each in self.answers]})

    def _read_state(self) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return known
