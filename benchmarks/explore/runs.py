"""The measurements of this benchmark, each made once."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.cache import CachedRuns, Measured, digest, setting
from benchmarks.common.processes import ROOT
from benchmarks.explore.browser import browser_version

HERE = Path(__file__).parent
SOURCE = ROOT / "src" / "lowtide"


def surroundings() -> dict[str, str]:
    """What a measurement depends on besides the graph."""
    return {**setting(), "chromium": browser_version()}


class ExploreRuns(CachedRuns):
    """Measurements of graphs, servers and pages; a failure of one is kept, and the others go on."""

    def __init__(self, options: argparse.Namespace) -> None:
        # The index, the server and the page; not what needs TensorFlow.
        rooms = (SOURCE / room for room in ("atlas", "sources", "view"))
        super().__init__(options, digest(HERE), digest(HERE, *rooms))

    def once(self, name: str, work: Callable[[], Measured], *stamp: Any, by_lowtide: bool = True) -> Measured:
        def guarded() -> Measured:
            try:
                return work()
            except Exception as error:
                return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}

        return super().once(name, guarded, *stamp, browser_version(), by_lowtide=by_lowtide)

    def describe(self, result: Measured) -> str:
        if "failed" in result:
            return f"FAILED: {result['failed']}"[:150]
        last = result["runs"][-1] if result.get("runs") else result
        return ", ".join(f"{name} {_short(value)}" for name, value in last.items() if isinstance(value, int | float))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
