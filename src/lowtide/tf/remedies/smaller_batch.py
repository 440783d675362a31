"""What half of the batch would take."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.planning.remedies.remedy import Remedy, lowered
from lowtide.tf.remedies.subject import Subject, staged
from lowtide.tf.trace.step_cache import find_step
from lowtide.tide.tide import Tide
from lowtide.units import format_bytes


def predict_half_batch(subject: Subject) -> Tide | None:
    """Return the tide of the step with half of its batch; None if it has no batch that can be halved.

    The traced step is rescaled where that is certain, and traced again otherwise.
    """
    rows = subject.tide.batch_size
    if rows is None or rows < 2:
        return None
    report = staged(subject.progress, "with half of the batch")
    found: list[Tide] = []
    with subject.trying("half of the batch"):
        found.append(find_step(subject.target, subject.specs, rows // 2, report).tide(rows // 2, report, None))
    return found[0] if found else None


def halve_batch(subject: Subject, half: Tide | None) -> Iterator[Remedy]:
    """Yield what half of the batch saves."""
    if half is None:
        return
    fixed = int(half.peak_bytes * 2 - subject.tide.peak_bytes)
    grows = f"of the peak, {format_bytes(max(subject.tide.peak_bytes - fixed, 0))} grow with the batch"
    problem = f"{grows} of {subject.tide.batch_size:,}"
    advice = f"a batch of {half.batch_size:,}; lt.fit_in splits a batch and adds up its gradients where that is needed"
    changes = "a step learns from half as many examples"
    yield lowered(subject.tide, half, "batch", problem, advice, changes=changes)
