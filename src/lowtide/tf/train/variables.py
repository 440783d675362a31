"""Writes and restores variables in TensorFlow's checkpoint format, with at most a few MiB of memory for it.

An optimizer slot that a planned step updates in place is in TensorFlow's copy-on-read mode: an ordinary read allocates
the whole variable once more. Here this mode is turned off before a read, and the next update in place turns it on
again without a copy. Large variables are stored in slices along their first axis, so that each can be restored into
the variable's own buffer by itself: an assignment would move the variable to where its restored value was allocated.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from lowtide.errors import LowtideError

PREFIX = "variables"
"""The files of a checkpoint begin with this name; `tf.train.load_checkpoint(folder / PREFIX)` reads them."""
_PIECE_BYTES = 16 << 20
# Keras numbers names over all objects of a process.
_NUMBER = re.compile(r"_\d+(?=_|/|$)")

AnyPiece = TypeVar("AnyPiece", bound="Piece")


class Piece(Protocol):
    """What is written at once: a variable, or some rows of a large one."""

    @property
    def name(self) -> str:
        """The position and the path of the variable."""

    @property
    def layout(self) -> str:
        """The rows in the notation of SaveV2: all sizes, and for each axis "start,length" or "-"."""

    @property
    def bytes(self) -> int:
        """The size of the value."""

    def read(self) -> tf.Tensor:
        """Return the value."""


def save_variables(variables: Sequence[Any], folder: Path) -> None:
    """Write variables of TensorFlow and Keras to a folder, each under its position and its path."""
    save_pieces(pieces_of(variables), folder)


def save_pieces(pieces: Iterable[Piece], folder: Path) -> None:
    """Write the pieces of variables to a folder."""
    try:
        _save(pieces, folder)
    except tf.errors.ResourceExhaustedError as error:
        # TensorFlow reports a full disk by the error for memory that runs out.
        for number in (errno.ENOSPC, errno.EDQUOT):
            if os.strerror(number) in error.message:
                raise OSError(number, os.strerror(number), str(folder)) from error
        raise


def pieces_of(variables: Sequence[Any]) -> Iterator[VariablePiece]:
    """Yield the pieces of variables that a checkpoint consists of."""
    return _pieces(variables, [f"{position:03}/{_path(variable)}" for position, variable in enumerate(variables)])


def _save(pieces: Iterable[Piece], folder: Path) -> None:
    parts: list[str] = []
    for group in _groups(pieces):
        parts.append(str(folder / f"{PREFIX}-{len(parts):05}"))
        tf.raw_ops.SaveV2(
            prefix=parts[-1],
            tensor_names=[piece.name for piece in group],
            shape_and_slices=[piece.layout for piece in group],
            tensors=[piece.read() for piece in group],
        )
    if parts:
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=parts, destination_prefix=str(folder / PREFIX), delete_old_dirs=False
        )


def restore_variables(variables: Sequence[Any], folder: Path) -> None:
    """Write the stored values into the variables; if they do not match, raise an error and change none."""
    stored = _stored(folder)
    change = _first_change(variables, stored)
    if change is not None:
        cure = "restore the model and its optimizer as they were, or start a new run"
        raise LowtideError(f"the model has changed since the checkpoint: {change}", cure=cure)
    for group in _groups(_pieces(variables, [entry.name for entry in stored])):
        values = tf.raw_ops.RestoreV2(
            prefix=str(folder / PREFIX),
            tensor_names=[piece.name for piece in group],
            shape_and_slices=[piece.layout for piece in group],
            dtypes=[piece.variable.dtype for piece in group],
        )
        while values:
            group[len(values) - 1].write(values.pop())


def match_variables(variables: Sequence[Any], folder: Path) -> bool:
    """Whether the variables are those of a checkpoint."""
    return _first_change(variables, _stored(folder)) is None


@dataclass(frozen=True)
class VariablePiece:
    """A piece whose value is that of the variable."""

    variable: Any
    name: str
    rows: tuple[int, int] | None = None

    @property
    def bytes(self) -> int:
        shape = self.variable.shape
        # A variable may change its shape.
        whole: int = (shape.num_elements() or 0) * self.variable.dtype.size
        return whole if self.rows is None else whole // shape[0] * (self.rows[1] - self.rows[0])

    @property
    def layout(self) -> str:
        if self.rows is None:
            return ""
        start, stop = self.rows
        slices = [f"{start},{stop - start}", *("-" for _ in self.variable.shape[1:])]
        return f"{' '.join(map(str, self.variable.shape))} {':'.join(slices)}"

    def read(self) -> tf.Tensor:
        tf.raw_ops.DisableCopyOnRead(resource=self.variable.handle)
        value = tf.raw_ops.ReadVariableOp(resource=self.variable.handle, dtype=self.variable.dtype)
        return value if self.rows is None else value[slice(*self.rows)]

    def write(self, value: tf.Tensor) -> None:
        if not self.variable.shape.is_fully_defined():
            self.variable.assign(value)
            return
        axes = 1 if self.variable.shape.rank else 0
        start, stop = self.rows or (0, value.shape[0] if axes else 0)
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=self.variable.handle,
            begin=tf.constant([start] * axes, tf.int64),
            end=tf.constant([stop] * axes, tf.int64),
            strides=tf.constant([1] * axes, tf.int64),
            value=value,
        )
        # Writing rows turned on the copies of weights, which a step reads more than once.
        tf.raw_ops.DisableCopyOnRead(resource=self.variable.handle)


def _pieces(variables: Sequence[Any], names: Sequence[str]) -> Iterator[VariablePiece]:
    for variable, name in zip(variables, names, strict=True):
        whole = VariablePiece(_tensorflow_variable(variable), name)
        if whole.bytes <= _PIECE_BYTES:
            yield whole
            continue
        rows = whole.variable.shape[0]
        count = max(_PIECE_BYTES * rows // whole.bytes, 1)
        for start in range(0, rows, count):
            yield VariablePiece(whole.variable, name, (start, min(start + count, rows)))


def _groups(pieces: Iterable[AnyPiece]) -> Iterator[list[AnyPiece]]:
    """Yield pieces that are written together."""
    group: list[AnyPiece] = []
    held = 0
    for piece in pieces:
        if group and held + piece.bytes > _PIECE_BYTES:
            yield group
            group, held = [], 0
        group.append(piece)
        held += piece.bytes
    if group:
        yield group


@dataclass(frozen=True)
class _Entry:
    """What identifies a variable of a checkpoint besides its position."""

    name: str
    shape: tf.TensorShape
    dtype: str

    @property
    def path(self) -> str:
        """The end of the path: a layer or an optimizer, and its variable."""
        return "/".join(self.name.split("/")[1:][-2:])

    def is_named_like(self, other: _Entry) -> bool:
        """Whether one path ends with the other: the scopes before depend on where the variable was built."""
        paths = [_NUMBER.sub("", entry.name).split("/")[1:] for entry in (self, other)]
        shared = min(map(len, paths))
        return paths[0][-shared:] == paths[1][-shared:]


def _stored(folder: Path) -> list[_Entry]:
    """Return the variables of a checkpoint, in their order."""
    if not (folder / f"{PREFIX}.index").exists():
        return []
    reader = tf.train.load_checkpoint(str(folder / PREFIX))
    dtypes = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    entries = [_Entry(name, tf.TensorShape(shape), dtypes[name].name) for name, shape in shapes.items()]
    return sorted(entries, key=lambda entry: int(entry.name.partition("/")[0]))


def _first_change(variables: Sequence[Any], stored: Sequence[_Entry]) -> str | None:
    entries = []
    for position, variable in enumerate(variables):
        tensor = _tensorflow_variable(variable)
        entries.append(_Entry(f"{position:03}/{_path(variable)}", tensor.shape, tensor.dtype.name))
    return next(_changes(entries, stored), None)


def _changes(entries: Sequence[_Entry], stored: Sequence[_Entry]) -> Iterator[str]:
    for now, was in zip(entries, stored, strict=False):
        if not now.is_named_like(was):
            yield f"{now.path} {now.shape} is in the place of {was.path} {was.shape}"
        elif not now.shape.is_compatible_with(was.shape):
            yield f"{now.path} is {now.shape}, and was {was.shape}"
        elif now.dtype != was.dtype:
            yield f"{now.path} is {now.dtype}, and was {was.dtype}"
    yield from (f"{entry.path} is new" for entry in entries[len(stored) :])
    yield from (f"{entry.path} is missing" for entry in stored[len(entries) :])


def _tensorflow_variable(variable: Any) -> Any:
    return variable if isinstance(variable, tf.Variable) else variable.value


def _path(variable: Any) -> str:
    path: str = variable.name.partition(":")[0] if isinstance(variable, tf.Variable) else variable.path
    return path
