"""Each measurement once: from the cache, or made now and kept."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.accuracy.measure import Cache, key_of, setting
from benchmarks.accuracy.processes import ROOT
from benchmarks.explore.browser import browser_version

HERE = Path(__file__).parent
SOURCE = ROOT / "src" / "lowtide"

Measured = dict[str, Any]
"""What was measured. "failed" says why there is nothing; an empty one was not measured."""


def digest_files(*paths: Path) -> str:
    """A short name for what these files, or the files below these folders, hold now."""
    total = hashlib.sha256()
    for path in paths:
        below = (each for each in sorted(path.rglob("*")) if each.suffix in (".py", ".js", ".css", ".html"))
        for each in below if path.is_dir() else (path,):
            total.update(each.read_bytes())
    return total.hexdigest()[:12]


def surroundings() -> dict[str, str]:
    """What a measurement depends on besides the graph."""
    return {**setting(), "chromium": browser_version()}


class Runs:
    """The cache, and the one thing that is asked of it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._cache = Cache(options.results)
        self._fresh, self._assemble = options.fresh, options.assemble
        self._programs = digest_files(HERE)
        # The index, the server and the page; not what needs TensorFlow.
        self._source = digest_files(HERE, SOURCE / "atlas", SOURCE / "sources", SOURCE / "view")
        self.earlier: list[str] = []
        """What was assembled although it was measured with another source."""

    def once(self, name: str, work: Callable[[], Measured], *stamp: Any, by_lowtide: bool = True) -> Measured:
        """What the work named so gave; `stamp` is what else the answer depends on."""
        source = self._source if by_lowtide else self._programs
        if self._assemble:
            return self._newest(name, source)
        key = key_of(name, *stamp, browser_version(), source)
        known = None if self._fresh else self._cache.find("measured", key)
        if known is None or "failed" in known:
            try:
                known = work()
            except Exception as error:
                # A browser or a server that fails is told in the table, and the others go on.
                known = {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
            self._cache.add("measured", key, known)
        print(f"  {name:40s} {tell(known)}", flush=True)
        return known

    def _newest(self, name: str, source: str) -> Measured:
        """The last answer on a machine like this one; what was measured with another source is noted."""
        found, measured_with = self._cache.newest("measured", name)
        if measured_with not in (None, source):
            self.earlier.append(name)
        return found


def tell(result: Measured) -> str:
    """One line for the terminal."""
    if "failed" in result:
        return f"FAILED: {result['failed']}"[:150]
    last = result["runs"][-1] if result.get("runs") else result
    return ", ".join(f"{name} {_short(value)}" for name, value in last.items() if isinstance(value, int | float))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
