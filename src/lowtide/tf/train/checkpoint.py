"""Saves and restores a training: its variables, the position in its data, its callbacks and generators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from lowtide.run.train.checkpoint_files import UnfinishedCheckpoint, checkpoint_name, find_damage, prune
from lowtide.run.train.history import CheckpointWritten
from lowtide.tf.train.callbacks import capture_callbacks, prepare_callbacks, restore_callbacks
from lowtide.tf.train.data.training_data import TrainingData
from lowtide.tf.train.plain_data import load_state, save_state
from lowtide.tf.train.results import Result
from lowtide.tf.train.session import RunSession
from lowtide.tf.train.state import capture_random, restore_random
from lowtide.tf.train.variables import Piece, match_variables, pieces_of, restore_variables, save_pieces
from lowtide.tf.train.variables_copy import copy_variables, should_copy

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


@dataclass(frozen=True)
class _Write:
    """A checkpoint whose files are written except for the variables."""

    session: RunSession
    checkpoint: UnfinishedCheckpoint
    event: CheckpointWritten
    """What to say of it, but for its size and its times."""
    began: float
    """The time of its state, as `time.monotonic` says it."""

    def finish(self, pieces: Iterable[Piece], blocked_seconds: float | None = None) -> int:
        """Write the variables, complete the checkpoint and tell of it; returns its size.

        `blocked_seconds` is how long the training has waited; None if it waits for this method too.
        """
        with self.checkpoint.filling() as folder:
            save_pieces(pieces, folder)
        path = self.checkpoint.finish()
        prune(path.parent)
        size, now = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()), time.monotonic()
        seconds = now - self.began
        blocked = seconds if blocked_seconds is None else blocked_seconds
        self.session.add(replace(self.event, time=time.time(), bytes=size, seconds=seconds, blocked_seconds=blocked))
        return size


class Checkpointer:
    """Writes and reads the checkpoints of one training of a run.

    `find_variables` and `find_callbacks` are called for each checkpoint, because a script may create more of them.
    `describe` returns what is needed to create the variables again.
    """

    def __init__(
        self,
        session: RunSession,
        training: int,
        data: TrainingData | None,
        find_variables: Callable[[], list[tf.Variable]],
        find_callbacks: Callable[[], Sequence[Any]] = tuple,
        describe: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.session = session
        self.training = training
        self._data = data
        self._find_variables = find_variables
        self._find_callbacks = find_callbacks
        self._describe = describe

    def save(self, position: Position, reason: str, *, in_background: bool = False) -> None:
        """Write a checkpoint of the state between two steps, after the one before it is complete.

        In the background only a copy of the variables is made before the method returns, and a thread writes the copy.
        Where there is no room for the copy, or it is not worth it, the checkpoint is complete when the method returns.
        """
        session, began = self.session, time.monotonic()
        session.writer.wait()
        checkpoint = UnfinishedCheckpoint(
            session.directory.checkpoints, checkpoint_name(session.steps_done, is_end=position.is_end)
        )
        with checkpoint.filling() as folder:
            self._save_state(position, folder)
            variables = self._find_variables()
            copied = copy_variables(variables) if in_background and should_copy(variables) else None
        event = CheckpointWritten(
            attempt=session.attempt, name=checkpoint.path.name, reason=reason, epoch=position.epoch, step=position.step,
            steps_done=session.steps_done, bytes=0, seconds=0.0,
        )  # fmt: skip
        write = _Write(session, checkpoint, event, began)
        if copied is not None:
            session.writer.start(partial(write.finish, copied, time.monotonic() - began), session.steps_done)
        else:
            size = write.finish(pieces_of(variables))
            if position.is_end:
                session.results.add(Result(checkpoint.path, self.training, session.models[self.training], size))
        session.saved(time.monotonic() - began)

    def _save_state(self, position: Position, folder: Path) -> None:
        """Write everything but the variables."""
        session, data = self.session, None
        if self._data is not None:
            (folder / _DATA).mkdir()
            data = self._data.save(folder / _DATA)
        content = {
            "training": self.training,
            "steps_done": session.steps_done,
            **vars(position),
            "data": data,
            "steps": None if self._data is None else self._data.steps,
            "callbacks": capture_callbacks(self._find_callbacks()),
            "random": capture_random(),
            "model": session.models[self.training],
            "description": self._describe(),
            "lines": session.lines,
        }
        save_state(folder, content)

    def find(self) -> Path | None:
        """Return the checkpoint to continue this training from; None if it starts at its beginning."""
        return self.session.found if self.session.found_training == self.training else None

    def read(self, path: Path) -> Position:
        """Return the position of a checkpoint, and let the session count from its steps."""
        state = load_state(path)
        self.session.continue_after(int(state["steps_done"]))
        return Position(**{name: state[name] for name in Position.__dataclass_fields__ if name != "is_end"})

    def find_end(self) -> Path | None:
        """Return the checkpoint with the result of this training, which ended before; None if it is not kept."""
        session, which = self.session, f"training {self.training + 1} of the script ended before"
        result = session.results.find(self.training, session.models[self.training])
        problem = None if result is None else find_damage(result.path)
        if result is None or problem is not None:
            why = "is not kept" if problem is None else f"is damaged ({problem})"
            session.note(f"{which}; its result {why}: its model stays as the script has made it")
            return None
        if result.training != self.training:
            session.note(f"{which}; its model is that of training {result.training + 1}, the first that is still kept")
        return result.path

    def has_ended(self, epochs: int | None = None) -> bool:
        """Whether this training ended in an earlier process; the last one goes on if it now has more epochs."""
        found, state = self.session.found_training, self.session.found_state
        if found != self.training or state is None:
            return found > self.training
        is_complete = epochs is None or state["epoch"] >= epochs or state["is_stopping"]
        return bool(state["is_end"] and is_complete)

    def prepare_callbacks(self, callbacks: Sequence[Any]) -> None:
        """Let callbacks continue their files; before they get their model."""
        found = self.find()
        if found is not None:
            prepare_callbacks(callbacks, load_state(found)["callbacks"])

    def description(self, path: Path) -> dict[str, Any]:
        """Return what `describe` said when the checkpoint was written."""
        description: dict[str, Any] = load_state(path)["description"]
        return description

    def has_variables_of(self, path: Path) -> bool:
        """Whether the variables are those of a checkpoint; some are made by the first step."""
        return match_variables(self._find_variables(), path)

    def restore_variables(self, path: Path) -> None:
        """Set the variables to what they were."""
        restore_variables(self._find_variables(), path)

    def restore_data(self, path: Path) -> None:
        """Set the position of the data; before its first epoch begins."""
        state = load_state(path)
        if self._data is None or state["data"] is None:
            return
        if state["step"] and state["steps"] != self._data.steps:
            self.session.note(
                f"an epoch has {self._data.steps} steps, and had {state['steps']}: in the one that continues, samples "
                "may be left out or trained twice"
            )
        self._data.restore(path / _DATA, state["data"])

    def restore_rest(self, path: Path) -> None:
        """Set callbacks and random generators to what they were; after the callbacks' own `on_train_begin`."""
        state = load_state(path)
        missing = restore_callbacks(self._find_callbacks(), state["callbacks"])
        if missing:
            self.session.note(f"callbacks of the checkpoint that the script no longer has: {', '.join(missing)}")
        restore_random(state["random"])
