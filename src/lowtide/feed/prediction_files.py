"""Prediction files that grow batch by batch, and a state file that says how much has been written."""

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

# The number of batches between two saves.
_SAVED_EVERY = 32


class PredictionFile:
    """The predictions of one output in a `.npy` whose header has the number of rows that were saved."""

    def __init__(self, to: Path) -> None:
        self.to, self.part = to, to.with_name(f"{to.name}.part")
        self._file: BinaryIO | None = None
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None

    @property
    def row_type(self) -> list[Any] | None:
        """The shape and the dtype of a prediction, for the state file."""
        return None if self._dtype is None else [list(self._shape or ()), npy.dtype_to_descr(self._dtype)]

    def resume(self, row_type: list[Any]) -> None:
        """Continue a file that was begun before."""
        self._shape, self._dtype = tuple(row_type[0]), np.dtype(row_type[1])

    def open(self, rows: int) -> None:
        """Open the file for appending after `rows` rows; rows that were written after the last save are dropped."""
        self.to.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.part.open("r+b" if rows else "w+b")
        if rows:
            self._file.truncate(self._header_bytes() + rows * self._row_bytes())
            self._file.seek(0, os.SEEK_END)

    def append(self, predictions: np.ndarray) -> None:
        assert self._file is not None
        if self._dtype is None:
            self._shape, self._dtype = predictions.shape[1:], predictions.dtype
            self._write_header(0)
        if predictions.shape[1:] != self._shape or predictions.dtype != self._dtype:
            raise LowtideError(
                f"predictions for {self.to} have different shapes",
                given=f"{predictions.shape[1:]} {predictions.dtype} after {self._shape} {self._dtype}",
                cure="give the same model as before, or resume=False to start over",
            )
        self._file.write(np.ascontiguousarray(predictions).data)

    def save(self, rows: int) -> None:
        """Write everything to the disk."""
        assert self._file is not None
        self._write_header(rows)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        assert self._file is not None
        self._file.close()

    def load(self) -> np.memmap[Any, Any]:
        """The predictions, memory-mapped."""
        return np.load(self.to, mmap_mode="r")

    def _write_header(self, rows: int) -> None:
        """Write the number of rows; NumPy pads the header so that the number may grow."""
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


class PredictionJob:
    """Prediction files that grow together, one for each output."""

    def __init__(self, paths: Sequence[Path], inputs: dict[str, Any], resume: bool) -> None:
        self.files = [PredictionFile(path) for path in paths]
        self._inputs = inputs | {"files": [str(path) for path in paths]} if len(paths) > 1 else inputs
        self._state = paths[0].with_name(f"{paths[0].name}.json")
        self.rows = self.batches = 0
        known = self._read_state() if resume else None
        if known is not None and known["what"] != self._inputs:
            raise LowtideError(
                f"{paths[0]} was begun with other inputs",
                given=known["what"],
                cure="give resume=False to start over",
            )
        self.is_done = known is not None and known["done"] and all(each.to.exists() for each in self.files)
        if known is not None and not known["done"] and all(each.part.exists() for each in self.files):
            self.rows, self.batches = known["rows"], known["batches"]
            for each, row_type in zip(self.files, known["kinds"], strict=True):
                each.resume(row_type)

    def __enter__(self) -> PredictionJob:
        for each in self.files:
            each.open(self.rows)
        return self

    def __exit__(self, error_type: Any, *rest: Any) -> None:
        if self.batches:
            self._save()
        for each in self.files:
            each.close()
        if error_type is not None:
            return
        if not self.batches:
            raise LowtideError("there was nothing to predict", given=self._inputs["source"], cure="give some samples")
        for each in self.files:
            each.part.replace(each.to)
        self._write_state(done=True)

    def append(self, predictions: Sequence[np.ndarray]) -> None:
        """Write the predictions of a batch, one array for each file."""
        for each, rows in zip(self.files, predictions, strict=True):
            each.append(rows)
        self.rows, self.batches = self.rows + len(predictions[0]), self.batches + 1
        if self.batches % _SAVED_EVERY == 0:
            self._save()

    def _save(self) -> None:
        for each in self.files:
            each.save(self.rows)
        self._write_state(done=False)

    def _write_state(self, *, done: bool) -> None:
        content = {"what": self._inputs, "rows": self.rows, "batches": self.batches, "done": done}
        write_json(self._state, content | {"kinds": [each.row_type for each in self.files]})

    def _read_state(self) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return known
