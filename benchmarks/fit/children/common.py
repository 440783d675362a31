"""What every child does: read its arguments, do its work, and write the answer or why there is none."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from lowtide import LowtideError

DEVICE = "CPU:0"

Work = Callable[[argparse.Namespace], dict[str, Any]]


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that all children take."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("name", help="a case of benchmarks/fit/suite.py, or a model of keras.applications")
    made.add_argument("--budget", type=int, help="bytes")
    made.add_argument("--batch-size", type=int)
    made.add_argument("--output", type=Path, required=True)
    return made


def answer(options: argparse.Namespace, work: Work) -> None:
    """Writes what the work gives. Running out of memory, and being refused a plan, are answers too."""
    try:
        result = work(options)
    except tf.errors.ResourceExhaustedError as error:
        lines = [line for line in error.message.splitlines() if "OOM" in line] or [error.message]
        result = {**_so_far(options), "ran_out": True, "error": lines[0].strip()[:300]}
    except LowtideError as error:
        result = {**_so_far(options), "refused": str(error)}
    except Exception as error:  # what a peer raises belongs in the table
        # Keras says first in which layer it happened, then what.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        lines = [line for line in lines if "Exception encountered" not in line]
        result = {"failed": f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]}
    write(options, result)


def _so_far(options: argparse.Namespace) -> dict[str, Any]:
    return json.loads(options.output.read_text()) if options.output.exists() else {}


def write(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """At once or not at all, for the process may die while it writes."""
    unfinished = options.output.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(options.output)


class Meter:
    """The allocator's peak in each step, what was in use before it, and its seconds."""

    def __init__(self) -> None:
        self.peaks: list[int] = []
        self.before: list[int] = []
        self.seconds: list[float] = []

    def run(self, step: Callable[[], Any]) -> Any:
        tf.config.experimental.reset_memory_stats(DEVICE)
        self.before.append(tf.config.experimental.get_memory_info(DEVICE)["current"])
        started = time.perf_counter()
        result = step()
        self.seconds.append(round(time.perf_counter() - started, 4))
        self.peaks.append(tf.config.experimental.get_memory_info(DEVICE)["peak"])
        return result

    def to_dict(self) -> dict[str, Any]:
        return {"peaks": self.peaks, "before": self.before, "seconds": self.seconds}
