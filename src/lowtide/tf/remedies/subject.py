"""The step that is examined, and its prediction after a change."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import keras

from lowtide.errors import LowtideError
from lowtide.planning.remedies.remedy import LEAST_SHARE
from lowtide.progress import Progress, ProgressCallback
from lowtide.tf.trace.specs import Specs
from lowtide.tf.trace.step import Step
from lowtide.tf.trace.step_cache import trace_model
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes


@dataclass(eq=False)
class Subject:
    """A traced step with its tide, and what it was traced from."""

    target: Any
    specs: Specs
    batch_size: int | None
    step: Step
    tide: Tide
    progress: ProgressCallback
    notes: list[str] = field(default_factory=list)
    """What could not be tried, and what would not help."""

    @property
    def least_share(self) -> float:
        """The smallest saving that can be distinguished from the differences between steps, as a share of the peak."""
        return max(LEAST_SHARE, getattr(self.step, "peak_spread", 0.0) / 2)

    @property
    def model(self) -> keras.Model | None:
        """The Keras model; None for a step that is a function."""
        return self.target if isinstance(self.target, keras.Model) else None

    def predict_changed(self, stage: str) -> Tide:
        """Return the tide of the model as it is now, after a change."""
        assert self.model is not None
        report = staged(self.progress, stage)
        step = trace_model(self.model, self.specs, self.batch_size, self.model.train_step, report)
        tide = step.tide(self.batch_size, report, None)
        del step
        # Graphs refer to themselves, and hold the variables that the change created.
        gc.collect()
        return tide

    def notes_loss(self, after: Tide, what: str) -> bool:
        """Note a change that does not lower the peak; return whether that is so."""
        if after.peak_bytes < self.tide.peak_bytes:
            return False
        peaks = f"{format_bytes(self.tide.peak_bytes)} now, {format_bytes(after.peak_bytes)} with it"
        self.notes.append(f"{what} would save nothing at the peak: {peaks}")
        return True

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Note a change that this program does not allow, and go on."""
        try:
            yield
        except LowtideError as error:
            self.notes.append(f"{what} could not be tried: {error.problem}")
        except Exception as error:
            # The user's own layers and optimizers run here, and may expect what the program gives them.
            reason = f"{type(error).__name__} {' '.join(str(error).split())[:200]}".strip()
            self.notes.append(f"{what} could not be tried: {reason}")


def staged(progress: ProgressCallback, stage: str) -> Callable[[Progress], None]:
    """Return a callback that puts a stage before the stages that it is given."""
    return lambda each: progress(replace(each, stage=f"{stage}: {each.stage}", left_seconds=None))
