"""What the supervisor tells the process of an attempt."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lowtide.run.startup.sitecustomize import SEED

VARIABLE = "LOWTIDE_TRAIN"
"""The environment variable that holds the settings of an attempt."""
DATA_SHARE = "LOWTIDE_DATA_SHARE"
"""The environment variable with the share of its memory that the data pipeline may use."""
CHECKPOINT_SECONDS = 300.0


@dataclass(frozen=True)
class AttemptSettings:
    """The settings of one attempt, which the supervisor changes after a failure."""

    run: str
    """The directory of the run."""
    attempt: int
    seed: int
    """The seed of the run, for every generator that the script does not seed itself."""
    budget_bytes: int | None = None
    """The memory that training steps are planned for; None if no step is planned."""
    allow: tuple[str, ...] = ()
    """Changes of the results that the user has allowed."""
    splits: bool = False
    """Whether batches may be split where that changes statistics, as under BatchNormalization."""
    data_share: float = 1.0
    """The share of its memory that the data pipeline may use."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    checkpoint_steps: int | None = None

    @property
    def folder(self) -> Path:
        """The directory of the run."""
        return Path(self.run)

    def to_environment(self) -> dict[str, str]:
        """Return the environment variables for the process of the attempt."""
        share = {} if self.data_share == 1.0 else {DATA_SHARE: str(self.data_share)}
        return {VARIABLE: json.dumps(asdict(self)), SEED: str(self.seed), **share}

    def changed(self, **changes: object) -> AttemptSettings:
        """Return the settings of another attempt."""
        return replace(self, **changes)  # type: ignore[arg-type]


def read_settings(environment: Mapping[str, str] | None = None) -> AttemptSettings | None:
    """Return the settings of this process; None if no supervisor started it."""
    text = (os.environ if environment is None else environment).get(VARIABLE)
    if text is None:
        return None
    stored = json.loads(text)
    return AttemptSettings(**{**stored, "allow": tuple(stored["allow"])})


def data_share() -> float:
    """Return the share of its memory that a data pipeline of this process may use."""
    return float(os.environ.get(DATA_SHARE, "1"))
