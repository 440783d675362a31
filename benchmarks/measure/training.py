"""Running a program that trains: plain, recorded, and under TensorFlow's own profiler for XProf."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common.processes import AMPLE_BYTES
from benchmarks.measure.cases import Training
from benchmarks.measure.processes import Ended, Failed, run_plain, run_recorded

STEPS = 24
# TensorFlow's profiler is asked for one step that lowtide records as well.
PROFILED_STEP = 13
_READER = Path(__file__).with_name("xprof_reader.py")


def measure_plain(case: Training) -> dict[str, Any]:
    """The peaks and the seconds of each step, and of the process, without lowtide."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "steps.json"
        ended = run_plain(case.program, [*case.arguments, *_words(report)], AMPLE_BYTES)
        return {**_read(report, ended), "process_seconds": ended.seconds}


def measure_recorded(case: Training) -> dict[str, Any]:
    """The same of a recorded run, and what the record says."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "steps.json"
        ended, said = run_recorded(case.program, [*case.arguments, *_words(report)], AMPLE_BYTES)
        seen = _read(report, ended)
    if said.get("recording") is None:
        raise Failed(f"nothing was recorded: {said['run']['problem']}")
    return {**seen, "process_seconds": ended.seconds, **summarise_record(said)}


def summarise_record(said: dict[str, Any]) -> dict[str, Any]:
    """What of lowtide's report the table needs: recorded peaks, and the known owners of the bytes at the peak."""
    unnamed = next((share for share in said["by_layer"] if share["layer"] is None), None)
    return {
        "recorded_peaks": {str(step["step"]): step["peak_bytes"] for step in said["recording"]["steps"]},
        "peak_step": said["recording"]["step"],
        "peak_bytes": said["peak_bytes"],
        "in_layers_bytes": sum(share["bytes"] for share in said["by_layer"] if share["layer"] is not None),
        "unnamed_by_kind": {} if unnamed is None else unnamed["by_kind"],
    }


def measure_xprof(case: Training, interpreter: str) -> dict[str, Any]:
    """What XProf says about one step of a plain run, beside the allocator's own peak in that step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report, profile = folder / "steps.json", folder / "profile"
        words = [*_words(report, PROFILED_STEP), "--profile", str(profile), "--profiled-step", str(PROFILED_STEP)]
        ended = run_plain(case.program, [*case.arguments, *words], AMPLE_BYTES)
        own_peak = _read(report, ended)["peaks"][PROFILED_STEP - 1]
        written = sorted(profile.rglob("*.xplane.pb"))
        if not written:
            raise Failed("TensorFlow's profiler wrote nothing")
        read = subprocess.run(
            [interpreter, str(_READER), str(written[-1])], capture_output=True, text=True, check=False, timeout=300
        )
        if read.returncode != 0:
            raise Failed(f"XProf: {(read.stderr.strip().splitlines() or ['no message'])[-1][:300]}")
        return {**json.loads(read.stdout), "own_peak_bytes": own_peak}


def _words(report: Path, steps: int = STEPS) -> list[str]:
    return ["--steps", str(steps), "--report", str(report)]


def _read(report: Path, ended: Ended) -> dict[str, Any]:
    if ended.code != 0 or not report.exists():
        raise Failed(f"the program ended with {ended.way}: {ended.last_line}")
    seen: dict[str, Any] = json.loads(report.read_text())
    return seen
