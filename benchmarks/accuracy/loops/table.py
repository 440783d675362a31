"""The table of the programs with loops: recorded peaks of many processes beside the predicted ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.processes import MEBIBYTE
from benchmarks.common.report import Bar, Section, number, percent
from benchmarks.common.report import to_markdown as report_markdown

MOST_ERROR = 0.03


@dataclass(frozen=True)
class LoopProgram:
    """The recorded peaks of one program, by process, and its prediction."""

    name: str
    peaks: tuple[tuple[int, ...], ...]
    usual_bytes: int
    highest_bytes: int | None
    safe_bytes: int

    @property
    def recorded(self) -> list[int]:
        """The peaks of all steps of all processes."""
        return [peak for process in self.peaks for peak in process]

    @property
    def error(self) -> float:
        """The error of the usual peak; negative is too low."""
        return self.usual_bytes / statistics.median(self.recorded) - 1

    @property
    def bound_ratio(self) -> float:
        """The bound divided by the highest recorded step."""
        return self.safe_bytes / max(self.recorded)

    @property
    def exceeded(self) -> int:
        """The number of recorded steps above the bound."""
        return sum(peak > self.safe_bytes for peak in self.recorded)


_COLUMNS = (
    "program", "processes", "steps", "lowest", "usual", "highest", "medians of the processes", "predicted usual",
    "error", "predicted highest", "safe bound", "bound / highest", "steps above the bound",
)  # fmt: skip


def to_markdown(programs: Sequence[LoopProgram], setting: Mapping[str, str]) -> str:
    """Return the whole report."""
    errors = [abs(program.error) for program in programs]
    exceeded = sum(program.exceeded for program in programs)
    steps = sum(len(program.recorded) for program in programs)
    error = statistics.median(errors) if errors else None
    bars = [
        Bar(
            f"median error of the usual peak at most {percent(MOST_ERROR)}",
            percent(error, digits=1),
            error is not None and error <= MOST_ERROR,
        ),
        Bar("no step above its bound", f"{exceeded} of {steps:,}", bool(programs) and not exceeded),
    ]
    section = Section("Programs", _COLUMNS, [_cells(program) for program in programs], bars)
    return report_markdown([section], setting, title="Steps with loops")


def _cells(program: LoopProgram) -> list[str]:
    recorded = program.recorded
    medians = sorted(statistics.median(process) for process in program.peaks)
    sizes = (min(recorded), statistics.median(recorded), max(recorded))
    return [
        program.name,
        str(len(program.peaks)),
        str(len(recorded)),
        *(_mebibytes(size) for size in sizes),
        f"{_mebibytes(medians[0])} to {_mebibytes(medians[-1])}",
        _mebibytes(program.usual_bytes),
        percent(program.error, signed=True, digits=1),
        "" if program.highest_bytes is None else _mebibytes(program.highest_bytes),
        _mebibytes(program.safe_bytes),
        number(program.bound_ratio),
        str(program.exceeded),
    ]


def _mebibytes(size: float) -> str:
    return number(size / MEBIBYTE, 1)
