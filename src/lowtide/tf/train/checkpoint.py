"""Saves and restores a training: its variables, the position in its data, its callbacks and generators."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from lowtide.run.train.checkpoint_files import (
    checkpoint_name,
    end_checkpoints,
    prune,
    remove_checkpoint,
    write_checkpoint,
)
from lowtide.run.train.history import CheckpointWritten
from lowtide.tf.train.callbacks import capture_callbacks, prepare_callbacks, restore_callbacks
from lowtide.tf.train.data.training_data import TrainingData
from lowtide.tf.train.plain_data import load_state, save_state
from lowtide.tf.train.session import RunSession
from lowtide.tf.train.state import capture_random, restore_random
from lowtide.tf.train.variables import restore_variables, save_variables

_DATA = "data"


@dataclass
class Position:
    """How far a training is: `step` batches of `epoch` are done."""

    epoch: int = 0
    step: int = 0
    is_end: bool = False
    """Whether the training has reached its end."""
    is_stopping: bool = False
    """Whether a callback has asked to stop after this epoch."""
    logs: dict[str, float] = field(default_factory=dict)


class Checkpointer:
    """Writes and reads the checkpoints of one training of a run.

    `find_variables` and `find_callbacks` are called for each checkpoint, because a script may create more of them.
    """

    def __init__(
        self,
        session: RunSession,
        training: int,
        data: TrainingData | None,
        find_variables: Callable[[], list[tf.Variable]],
        find_callbacks: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        self.session = session
        self.training = training
        self._data = data
        self._find_variables = find_variables
        self._find_callbacks = find_callbacks

    def save(self, position: Position, reason: str) -> None:
        """Write a checkpoint of the state between two steps."""
        session = self.session
        started = time.monotonic()

        def write(folder: Path) -> None:
            save_variables(self._find_variables(), folder)
            data = None
            if self._data is not None:
                (folder / _DATA).mkdir()
                data = self._data.save(folder / _DATA)
            content = {
                "training": self.training,
                "steps_done": session.steps_done,
                **vars(position),
                "data": data,
                "callbacks": capture_callbacks(self._find_callbacks()),
                "random": capture_random(),
                "signature": self._signature(),
            }
            save_state(folder, content)

        parent = session.directory.checkpoints
        path = write_checkpoint(parent, checkpoint_name(session.steps_done, is_end=position.is_end), write)
        prune(parent)
        if position.is_end:
            self._remove_earlier_ends(path)
        seconds = time.monotonic() - started
        session.saved(seconds)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        session.add(
            CheckpointWritten(
                attempt=session.attempt, name=path.name, reason=reason, epoch=position.epoch, step=position.step,
                steps_done=session.steps_done, bytes=size, seconds=seconds,
            )
        )  # fmt: skip

    def find(self) -> tuple[Path, Position] | None:
        """Return the checkpoint to continue this training from; None if it starts at its beginning."""
        session, state = self.session, self.session.found_state
        if session.found is None or state is None or state["training"] != self.training:
            return None
        return session.found, Position(**{name: state[name] for name in Position.__dataclass_fields__})

    def find_end(self) -> Path | None:
        """Return the checkpoint with the result of this training, if it ended before.

        Of several trainings of one model only the last result is kept, so it may be that of a later one.
        """
        if self.session.found_training < self.training:
            return None
        for path in end_checkpoints(self.session.directory.checkpoints):
            state = load_state(path)
            if state["training"] >= self.training and state["signature"] == self._signature():
                return path
        return None

    def has_ended(self) -> bool:
        """Whether this training ended in an earlier process."""
        found, state = self.session.found_training, self.session.found_state
        return found > self.training or (found == self.training and state is not None and state["is_end"])

    def prepare_callbacks(self, callbacks: Sequence[Any]) -> None:
        """Let callbacks continue their files; before they get their model."""
        found = self.find()
        if found is not None:
            prepare_callbacks(callbacks, load_state(found[0])["callbacks"])

    def restore_variables(self, path: Path) -> None:
        """Set the variables to what they were."""
        restore_variables(self._find_variables(), path)

    def restore_data(self, path: Path) -> None:
        """Set the position of the data; before its first epoch begins."""
        state = load_state(path)["data"]
        if self._data is not None and state is not None:
            self._data.restore(path / _DATA, state)

    def _signature(self) -> str:
        """Return a digest of the variables' shapes and types, which models of one kind have in common."""
        parts = [f"{tuple(variable.shape)} {variable.dtype}" for variable in self._find_variables()]
        return hashlib.sha256(";".join(parts).encode()).hexdigest()

    def _remove_earlier_ends(self, newest: Path) -> None:
        for path in end_checkpoints(newest.parent):
            if path != newest and load_state(path)["signature"] == self._signature():
                remove_checkpoint(path)

    def restore_rest(self, path: Path) -> None:
        """Set callbacks and random generators to what they were; after the callbacks' own `on_train_begin`."""
        state = load_state(path)
        missing = restore_callbacks(self._find_callbacks(), state["callbacks"])
        if missing:
            self.session.note(f"callbacks of the checkpoint that the script no longer has: {', '.join(missing)}")
        restore_random(state["random"])
