"""Each measurement once: from the cache, or made now in a child process and kept."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.cache import CachedRuns, Measured, digest
from benchmarks.common.processes import AMPLE_BYTES, MEBIBYTE, ROOT, allocator_environment, run_module
from benchmarks.fit.suite import PLAIN, Case

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 2400.0
# What a plan depends on: looking at graphs and feeding data do not change it.
PLANNING_ROOMS = ("program", "simulator", "tide", "planning", "sources", "run", "tf")
# The first steps find an allocator that has not settled.
UNSTEADY = 4


class Runs(CachedRuns):
    """Training and planning in child processes. "crashed", "ran_out" and "refused" say why a result has no peaks."""

    def __init__(self, options: argparse.Namespace) -> None:
        rooms = [ROOT / "src" / "lowtide" / room for room in PLANNING_ROOMS]
        programs = (HERE / "programs", HERE / "children")
        super().__init__(options, digest(*programs), digest(*programs, *rooms))

    def once(self, name: str, work: Callable[[], Measured], *stamp: Any, by_lowtide: bool = False) -> Measured:
        return super().once(name, work, *stamp, by_lowtide=by_lowtide)

    def describe(self, result: Measured) -> str:
        return describe_result(result)

    def train(
        self,
        case: Case,
        way: str,
        label: str,
        *,
        limit_bytes: int | None = None,
        budget_bytes: int | None = None,
        batch_size: int | None = None,
        steps: int | None = None,
        by_lowtide: bool = False,
    ) -> Measured:
        """Some steps of a case in a way, in a process with this limit."""
        arguments = [case.name, "--way", way]
        arguments += [] if budget_bytes is None else ["--budget", str(budget_bytes)]
        arguments += ["--batch-size", str(batch_size or case.batch_size)]
        arguments += [] if steps is None else ["--steps", str(steps)]
        return self.once(
            f"{case.name} {way} {label}",
            lambda: start("train", arguments, limit_bytes),
            repr(case),
            *arguments,
            limit_bytes,
            by_lowtide=by_lowtide,
        )

    def reference(self, case: Case) -> Measured:
        """Plain steps under a limit that is never felt."""
        return self.train(case, PLAIN, "reference")


def start(child: str, arguments: Sequence[str], limit_bytes: int | None = None) -> Measured:
    """A child of this benchmark in a process of its own."""
    environment = allocator_environment(limit_bytes or AMPLE_BYTES)
    return run_module(f"benchmarks.fit.children.{child}", list(arguments), environment, TIMEOUT_SECONDS)


def ran_out(result: Measured) -> bool | None:
    """Whether a run ended for want of memory: some kernels end the process instead of telling. None without a run."""
    if "refused" in result:
        return None
    if result.get("ran_out") or "crashed" in result:
        return True
    return False if "peaks" in result else None


def describe_result(result: Measured) -> str:
    """One line for the terminal."""
    for reason in ("failed", "refused"):
        if reason in result:
            return f"{reason.upper()}: {result[reason]}"[:150]
    if ran_out(result):
        return f"ran out ({result.get('crashed', 'an error')})"
    peaks = result.get("peaks")
    seconds = f"{result.get('process_seconds', 0.0):6.1f} s"
    return f"{max(peaks) / MEBIBYTE:8.1f} MiB {seconds}" if peaks else seconds


def activation_bytes(result: Measured) -> int | None:
    """What a steady step takes on top of what is there before it, in the median."""
    extra = [peak - before for peak, before in zip(result.get("peaks", ()), result.get("before", ()), strict=True)]
    return int(statistics.median(extra[UNSTEADY:] or extra)) if extra else None


def budget_for(reference: Measured, share: float) -> int | None:
    """What is there before a step and a share of what it takes on top, in whole MiB: a limit has no finer grain."""
    activations = activation_bytes(reference)
    if activations is None:
        return None
    return int(reference["before"][-1] + share * activations) // MEBIBYTE * MEBIBYTE
