"""The end of a recorded run, still inside the script's process: what was heard becomes a tide.

Only here are the traced functions and the Keras objects at hand that give names to what the allocator saw.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.run.chunks import Stretch, busiest_allocator, follow
from lowtide.run.record import Record
from lowtide.run.recorded import RecordedStep, choose_step, recorded_tide
from lowtide.sources.xplane import read_profile
from lowtide.tf.looking import Look, look_at, look_at_nothing
from lowtide.tf.steps import Belongings
from lowtide.tide.tide import Tide

Tell = Callable[[str], None]


def conclude(recorder: Any, error: BaseException | None, tell: Tell = lambda text: None) -> None:
    """Write what is known of the run's steps: the tide of a steady one, and what was predicted for it."""
    folder: Path = recorder.folder
    record: Record = recorder.record()
    profiles = [read_profile(folder / window.profile) for window in record.windows]
    allocator = busiest_allocator(profiles)
    if allocator is None:
        return
    stretches = follow(record.windows, profiles, allocator)
    chosen = choose_step(stretches)
    if chosen is None:
        return
    stretch, step, steps = chosen
    look = _look(recorder, stretch, step, tell)
    tide = recorded_tide(
        stretch,
        step,
        steps,
        look.names,
        target="step",
        batch_size=look.batch_size,
        limit_bytes=record.limit_bytes,
        building=look.building,
        notes=tuple(recorder.notes),
    )
    tide.save(folder / "step.tide")
    predicted = _predict(look)
    if predicted is not None:
        predicted.save(folder / "predicted.tide")


def _look(recorder: Any, stretch: Stretch, step: RecordedStep, tell: Tell) -> Look:
    """Look at the largest function of the step; where that fails, names have to speak for themselves."""
    lookup = recorder.lookup
    belongings = Belongings(lookup.layers, lookup.kinds)
    concrete = _largest([recorder.functions[name] for name in step.functions if name in recorder.functions])
    if concrete is None:
        return look_at_nothing(belongings)
    name = next(name for name in step.functions if recorder.functions.get(name) is concrete)
    events = stretch.events
    recorded = [
        (operation, shape)
        for operation, shape in zip(
            events.operation[step.first : step.end], events.shape[step.first : step.end], strict=True
        )
        if operation is not None and shape
    ]
    try:
        return look_at(concrete, recorder.arguments.get(name, ()), recorded, belongings, tell)
    except LowtideError as error:
        recorder.notes.append(f"the step's graph could not be looked at: {error}")
        return look_at_nothing(belongings)


def _largest(functions: list[Any]) -> Any:
    return max(functions, key=lambda concrete: len(concrete.graph.get_operations()), default=None)


def _predict(look: Look) -> Tide | None:
    try:
        return look.predict("step")
    except LowtideError:
        return None
