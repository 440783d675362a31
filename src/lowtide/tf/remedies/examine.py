"""Examines a step: what holds its peak, and what each remedy would save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowtide.planning.remedies.at_peak import (
    PeakHolder,
    cheap_holder,
    dominant_layers,
    float32_holder,
    kind_holders,
)
from lowtide.planning.remedies.remedy import LEAST_SHARE, Examination, rank
from lowtide.progress import Progress, ProgressCallback
from lowtide.tf.remedies.baked_constants import unbake
from lowtide.tf.remedies.cheap_remat import plan_cheap_remat
from lowtide.tf.remedies.half_precision import half_precision_layers, try_half_precision
from lowtide.tf.remedies.other_optimizers import narrow_slots, try_optimizers
from lowtide.tf.remedies.smaller_batch import halve_batch, predict_half_batch
from lowtide.tf.remedies.subject import Subject
from lowtide.tf.trace.simulated_step import SimulatedStep
from lowtide.tf.trace.step_cache import find_step
from lowtide.tide.layers import traced_node
from lowtide.tide.tide import Tide


def examine(
    target: Any,
    *specs: Any,
    batch_size: int | None = None,
    progress: ProgressCallback | None = None,
    label: str | None = None,
) -> Examination:
    """Examine the step of a compiled Keras model, or of a function with specs of its inputs.

    The model is given other optimizers and policies while it is examined, and gets back what it had.
    """
    report = progress or (lambda each: None)
    step = find_step(target, specs, batch_size, report, exactly=True)
    tide = step.tide(batch_size, report, label)
    subject = Subject(target, specs, batch_size, step, tide, report)
    if subject.least_share > LEAST_SHARE:
        share = f"{2 * subject.least_share:.0%}"
        subject.notes.append(
            f"peaks differ by {share} from step to step; savings of less than half of that are left out"
        )
    half = predict_half_batch(subject)
    finders = (
        unbake(subject), halve_batch(subject, half), narrow_slots(subject), try_optimizers(subject),
        try_half_precision(subject), plan_cheap_remat(subject),
    )  # fmt: skip
    remedies = [remedy for finder in finders for remedy in finder]
    report(Progress("looking at the peak"))
    holders = tuple(sorted(_holders(subject, half), key=lambda holder: -holder.bytes))
    notes = (*tide.notes, *subject.notes)
    ranked = rank(remedies, tide.peak_bytes, subject.least_share)
    return Examination(tide.target, ranked, tide, holders, notes, tide.peak_bytes)


def _holders(subject: Subject, half: Tide | None) -> Iterator[PeakHolder]:
    yield from dominant_layers(subject.tide, half)
    yield from cheap_holder(subject.tide, _costs(subject))
    yield from float32_holder(subject.tide, half_precision_layers(subject.model))
    yield from kind_holders(subject.tide)


def _costs(subject: Subject) -> dict[str, float]:
    """Return the time of each node by the cost model, by its traced name."""
    if not isinstance(subject.step, SimulatedStep):
        return {}
    work = subject.step.workload(subject.step.batch_size)
    graph = work.graph
    nodes = zip(graph.names, graph.ops, work.cost_us, strict=True)
    return {traced_node(name, op)[0]: cost for name, op, cost in nodes}
