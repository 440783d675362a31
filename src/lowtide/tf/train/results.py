"""The results of trainings that have ended: a script that is started again gets them without training."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

from lowtide.run.train.checkpoint_files import end_checkpoints, remove_checkpoint
from lowtide.tf.train.plain_data import load_state

# A script may call `fit` hundreds of times for one model.
_MOST_EARLIER_BYTES = 4 << 30


@dataclass(frozen=True)
class Result:
    """The checkpoint at the end of a training."""

    path: Path
    training: int
    model: int
    """The first training of the same model in the script."""
    bytes: int


class Results:
    """The results that a run keeps: of each model the last one, and the earlier ones within 4 GiB."""

    def __init__(self, found: Iterable[Result], most_earlier_bytes: int = _MOST_EARLIER_BYTES) -> None:
        self._most = most_earlier_bytes
        self._by_training = {each.training: each for each in found}

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Return the results among the checkpoints in a folder."""
        found = []
        for path in end_checkpoints(folder):
            # What is damaged is told when it is needed.
            with suppress(OSError, ValueError, KeyError, BadZipFile):
                state = load_state(path)
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                found.append(Result(path, state["training"], state["model"], size))
        return cls(found)

    def find(self, training: int, model: int) -> Result | None:
        """Return the result of a training, or else that of the next training of the same model."""
        if training in self._by_training:
            return self._by_training[training]
        later = [each for each in self._by_training.values() if each.model == model and each.training >= training]
        return min(later, key=lambda each: each.training, default=None)

    def add(self, result: Result) -> None:
        """Keep a result, and remove the oldest ones for which there is too little room."""
        self._by_training[result.training] = result
        last = {each.model: each.training for _, each in sorted(self._by_training.items())}
        earlier = [each for _, each in sorted(self._by_training.items()) if last[each.model] != each.training]
        held = sum(each.bytes for each in earlier)
        for each in earlier:
            if held <= self._most:
                break
            held -= each.bytes
            del self._by_training[each.training]
            remove_checkpoint(each.path)
