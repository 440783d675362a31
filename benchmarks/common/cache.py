"""Measurements kept as JSON lines, with everything they depend on as the key."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Measured = dict[str, Any]
"""What a process or a browser gave. "failed" says why there is nothing; an empty one was not measured."""


def cpu_model() -> str:
    """The processor's name: which kernels TensorFlow picks depends on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def setting() -> dict[str, str]:
    """What a measurement depends on besides the configuration."""
    return {
        "tensorflow": version("tensorflow-cpu" if _has("tensorflow-cpu") else "tensorflow"),
        "keras": version("keras"),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
    }


def _has(distribution: str) -> bool:
    try:
        version(distribution)
    except ModuleNotFoundError:
        return False
    return True


class Cache:
    """Results as JSON lines, one file per kind; the last line for a key counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, kind: str) -> dict[str, dict[str, Any]]:
        path = self.folder / f"{kind}.jsonl"
        if not path.exists():
            return {}
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        return {row["key"]: row["result"] for row in rows}

    def find(self, kind: str, key: str) -> dict[str, Any] | None:
        return self.read(kind).get(key)

    def newest(self, kind: str, name: str) -> tuple[dict[str, Any], str | None]:
        """The last result of this name on a machine like this one, and the digest of its source."""
        here = list(setting().values())
        found: dict[str, Any] = {}
        measured_with = None
        for key, result in self.read(kind).items():
            parts = key.split(" | ")
            if parts[0] == name and parts[-len(here) :] == here:
                found, measured_with = result, parts[-len(here) - 1]
        return found, measured_with

    def add(self, kind: str, key: str, result: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{kind}.jsonl").open("a") as file:
            file.write(json.dumps({"key": key, "result": result}) + "\n")


def key_of(name: str, *more: Any) -> str:
    """One string for a configuration, what it was measured with, and anything else that matters."""
    return " | ".join([name, *map(str, more), *setting().values()])


def digest(*paths: Path) -> str:
    """A short name for the contents of these files and of the sources below these folders."""
    total = hashlib.sha256()
    for path in paths:
        below = (each for each in sorted(path.rglob("*")) if each.suffix in (".py", ".js", ".css", ".html"))
        for each in below if path.is_dir() else (path,):
            total.update(each.read_bytes())
    return total.hexdigest()[:12]


def add_cache_options(parser: argparse.ArgumentParser, results: Path) -> None:
    """Add the options that `CachedRuns` reads."""
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    parser.add_argument("--assemble", action="store_true", help="measure nothing: the table of what is in the cache")
    parser.add_argument("--results", type=Path, default=results, help="folder of the cache and the table")


class CachedRuns:
    """Runs each measurement once: takes it from the cache, or measures it now and keeps it.

    A measurement of lowtide depends on `source`, the digest of lowtide's code; one of a peer only on `programs`, the
    digest of the benchmark's own programs.
    """

    def __init__(self, options: argparse.Namespace, programs: str, source: str) -> None:
        self.cache = Cache(options.results)
        self.fresh, self.assemble = options.fresh, options.assemble
        self.programs, self.source = programs, source
        self.earlier: list[str] = []
        """Measurements that `--assemble` took although they were made with another source."""

    def once(self, name: str, work: Callable[[], Measured], *stamp: Any, by_lowtide: bool) -> Measured:
        """Return the measurement of this name; `stamp` is what else it depends on."""
        source = self.source if by_lowtide else self.programs
        if self.assemble:
            return self._newest(name, source)
        key = key_of(name, *stamp, source)
        known = None if self.fresh else self.cache.find("measured", key)
        if known is None or "failed" in known:
            known = work()
            self.cache.add("measured", key, known)
        print(f"  {name:60s} {self.describe(known)}", flush=True)
        return known

    def describe(self, result: Measured) -> str:
        """One line for the terminal."""
        raise NotImplementedError

    def _newest(self, name: str, source: str) -> Measured:
        """The last measurement on a machine like this one; notes it if it was made with another source."""
        found, measured_with = self.cache.newest("measured", name)
        if measured_with not in (None, source):
            self.earlier.append(name)
        return found
