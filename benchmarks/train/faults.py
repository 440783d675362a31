"""Faults: small trainings that are killed, starved or damaged at random, compared with an undisturbed one."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common.cache import Measured
from benchmarks.common.report import Bar, Section
from benchmarks.train.runs import SCRIPTS, Ended, TrainRuns, lowtide, run
from lowtide.run.train.history import AttemptStarted, CheckpointWritten, History, Note, Planned

SCRIPT = SCRIPTS / "small.py"
PROGRAMS = ("mlp", "cnn", "lstm", "loop")
DATA = ("arrays", "dataset", "feed")
FAULTS = {
    "kill": "SIGKILL at a random step",
    "checkpoint": "SIGKILL inside a checkpoint",
    "memory": "the device's memory is taken in mid-run",
    "limit": "the limit is lowered in mid-run",
    "disk": "the disk becomes full",
    "flip": "the machine stops; a bit of the newest checkpoint flips",
    "truncate": "the machine stops; a file of the newest checkpoint is cut off",
    "terminate": "SIGTERM",
}
LOWTIDE, BACKUP = "lowtide train", "BackupAndRestore"
SAMPLES, EPOCHS, STEPS, CHECKPOINT_STEPS = 40, 3, 21, 4
# A small limit, so that little has to be taken until it is reached.
LIMIT_MIB = 48
# Below what a step of the convolutional network takes; the others only have to fit.
LOWERED_MIB = {"cnn": 4}
MOST_STARTS = 4
DISK_BYTES = 1 << 20


@dataclass(frozen=True)
class Case:
    """One disturbed run."""

    number: int
    program: str
    data: str
    fault: str
    keeper: str = LOWTIDE

    @property
    def name(self) -> str:
        return f"{self.number:03} {self.fault} {self.program} {self.data} {self.keeper}"

    @property
    def step(self) -> int:
        """The step after which the fault happens; a checkpoint to be killed in comes after it."""
        last = STEPS - 2 * CHECKPOINT_STEPS if self.fault == "checkpoint" else STEPS - 1
        return random.Random(self.number).randrange(1, last)

    @property
    def arguments(self) -> list[str]:
        given = [self.program, self.data, "--fault", f"{self.fault}@{self.step}", "--number", str(self.number)]
        return [*given, "--background"] if self.is_in_background else given

    @property
    def is_in_background(self) -> bool:
        """Whether checkpoints are written in the background, for which these models are too small otherwise."""
        return self.keeper == LOWTIDE and random.Random(f"background {self.number}").random() < 0.5


def cases(count: int, peers: int) -> list[Case]:
    """Return runs under lowtide, each fault among the first ones, and for some of them those of the peer."""
    # Loops are not planned: a lower limit is only one more way to run out.
    whole = [each for each in itertools.product(PROGRAMS, DATA, FAULTS) if (each[0], each[2]) != ("loop", "limit")]
    random.Random(1).shuffle(whole)
    numbered = (Case(number, *whole[number % len(whole)]) for number in itertools.count())
    # TensorFlow tries each allocation of a loop that fails for ten seconds: minutes until a step has failed.
    quick = (
        each for each in numbered if (each.program, each.fault) != ("lstm", "memory") or each.number < len(DATA) + 1
    )
    chosen = list(itertools.islice(quick, count))
    # The peer is a callback of `fit`.
    fitted = [each for each in chosen if each.program != "loop"]
    beside = fitted[:: max(len(fitted) // peers, 1)][:peers] if peers else []
    found = chosen + [Case(each.number, each.program, each.data, each.fault, BACKUP) for each in beside]
    return sorted(found, key=lambda case: case.number)


# -- running -----------------------------------------------------------------------------------------------------------


def measure(case: Case, runs: TrainRuns) -> Measured:
    """Disturb one run, and compare it with the undisturbed one."""
    plain = reference(case, runs)
    return runs.once(f"fault {case.name}", lambda: _disturbed(case, plain), by_lowtide=case.keeper == LOWTIDE)


def reference(case: Case, runs: TrainRuns, variant: str = "") -> Measured:
    """Train without a fault; `variant` sets an environment variable."""
    keeper = case.keeper
    variables = dict([variant.split("=")]) if variant else {}

    def train() -> Measured:
        with _folders() as (folder, directory, _):
            ended = run(_command(keeper, folder, directory, [case.program, case.data], LIMIT_MIB), folder, **variables)
            return _result(folder) if ended.code == 0 else {"failed": ended.last_line}

    return runs.once(
        f"undisturbed {case.program} {case.data} {keeper} {variant}".strip(), train, by_lowtide=keeper == LOWTIDE
    )


def _disturbed(case: Case, plain: Measured) -> Measured:
    with _folders(DISK_BYTES if case.fault == "disk" else None) as (folder, directory, disk):
        arguments, limit = [*case.arguments, "--disk", str(disk)], LIMIT_MIB
        endings: list[Ended] = []
        started = time.perf_counter()
        while len(endings) < MOST_STARTS:
            command = _command(case.keeper, folder, directory, arguments, limit, is_again=bool(endings))
            endings.append(run(command, folder, **_variables(case.keeper, limit)))
            if endings[-1].code == 0:
                break
            if len(endings) == 1:
                limit = _change(case, directory, disk, limit)
        return {
            **_compare(_result(folder), plain),
            "codes": [each.code for each in endings],
            "happened": (folder / "happened").read_text() if (folder / "happened").exists() else None,
            "processor_seconds": round(sum(each.processor_seconds for each in endings), 1),
            "seconds": round(time.perf_counter() - started, 1),
            **(_history(directory) if case.keeper == LOWTIDE else {}),
            **({} if endings[-1].code == 0 else {"unfinished": endings[-1].last_line}),
        }


def _command(
    keeper: str, folder: Path, directory: Path, arguments: list[str], limit_mib: int, *, is_again: bool = False
) -> list[str]:
    if keeper == BACKUP:
        return [str(SCRIPT), str(folder), *arguments, "--backup", str(directory / "backup")]
    options = ["--budget", f"{limit_mib}MiB", "--checkpoint-steps", str(CHECKPOINT_STEPS)]
    if is_again:
        return lowtide(*options, "--resume", str(directory / "run"))
    return lowtide(*options, "--out", str(directory / "run"), str(SCRIPT), str(folder), *arguments)


def _variables(keeper: str, limit_mib: int) -> dict[str, str]:
    if keeper == LOWTIDE:
        return {}
    return {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mib)}


def _change(case: Case, directory: Path, disk: Path, limit_mib: int) -> int:
    """Do what happens while nothing runs; returns the limit from now on."""
    if case.fault == "disk":
        (disk / "other").unlink(missing_ok=True)
    if case.fault in ("flip", "truncate"):
        _damage(case, directory)
    return LOWERED_MIB.get(case.program, limit_mib // 2) if case.fault == "limit" else limit_mib


def _damage(case: Case, directory: Path) -> None:
    chance = random.Random(case.number)
    parent = directory / ("run/checkpoints" if case.keeper == LOWTIDE else "backup")
    if case.keeper == LOWTIDE:
        complete = sorted(path for path in parent.glob("*") if not path.name.endswith(".part"))
        parent = complete[-1] if complete else parent
    files = sorted(path for path in parent.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return
    chosen = chance.choice(files)
    content = bytearray(chosen.read_bytes())
    place = chance.randrange(len(content))
    if case.fault == "flip":
        content[place] ^= 1 << chance.randrange(8)
    else:
        del content[place:]
    chosen.write_bytes(content)


@contextmanager
def _folders(disk_bytes: int | None = None) -> Iterator[tuple[Path, Path, Path]]:
    """Yield a folder, the folder for the run's directory in it, and the disk that this one is on."""
    folder = Path(tempfile.mkdtemp(prefix="lowtide-train-"))
    directory = folder / "disk"
    directory.mkdir()
    if disk_bytes is not None:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={disk_bytes}", "tmpfs", str(directory)]
        subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder, directory, directory
    finally:
        if disk_bytes is not None:
            subprocess.run(["umount", str(directory)], check=True, capture_output=True)
        shutil.rmtree(folder)


# -- judging -----------------------------------------------------------------------------------------------------------


def _result(folder: Path) -> Measured:
    """Return what a training left: history, weights, and the batches by the number of updates before them."""
    result, weights = folder / "result.json", folder / "weights.npz"
    trained: dict[int, dict[int, list[list[int]]]] = {}
    losses: dict[int, float] = {}
    samples = folder / "samples.jsonl"
    for line in samples.read_text().splitlines() if samples.exists() else ():
        process, updates, batch, *loss = json.loads(line)
        trained.setdefault(updates, {}).setdefault(process, []).append(batch)
        if loss:
            losses[updates] = loss[0]
    # A batch that is trained in pieces is recorded piece by piece.
    tried = {
        updates: [list(itertools.chain(*pieces)) for pieces in by_process.values()]
        for updates, by_process in trained.items()
    }
    arrays = np.load(weights) if weights.exists() else {}
    return {
        "history": json.loads(result.read_text()) if result.exists() else None,
        "losses": [losses[updates] for updates in sorted(losses)],
        "weights": [arrays[name].ravel().tolist() for name in arrays],
        "tried": [tried[updates] for updates in sorted(tried)],
    }


def _compare(found: Measured, plain: Measured) -> Measured:
    # What the weights have learned: of a batch that was trained again, the last time.
    order = [each[-1] for each in found["tried"]]
    counts = Counter(sample for batch in order for sample in batch)
    flat = [sample for batch in order for sample in batch]
    epochs = [sorted(flat[first : first + SAMPLES]) for first in range(0, len(flat), SAMPLES)]
    again = [each for each in found["tried"] if len(each) > 1]
    return {
        "ends": found["history"] is not None,
        "equal_weights": found["weights"] == plain["weights"],
        "equal_losses": (found["history"], found["losses"]) == (plain["history"], plain["losses"]),
        "equal_order": order == [each[-1] for each in plain["tried"]],
        "deviation": deviation(found["weights"], plain["weights"]),
        "once_per_epoch": epochs == [list(range(SAMPLES))] * EPOCHS,
        "repeated": sum(max(counts[sample] - EPOCHS, 0) for sample in range(SAMPLES)),
        "lost": sum(max(EPOCHS - counts[sample], 0) for sample in range(SAMPLES)),
        "steps_again": sum(len(each) - 1 for each in again),
        "again_differs": sum(any(batch != each[0] for batch in each) for each in again),
    }


def deviation(found: Sequence[Sequence[float]], plain: Sequence[Sequence[float]]) -> float | None:
    """Return the norm of the difference of weights, relative to the norm of the weights."""
    if [len(each) for each in found] != [len(each) for each in plain]:
        return None
    one, other = (np.concatenate([np.asarray(each) for each in weights]) for weights in (found, plain))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def _history(directory: Path) -> Measured:
    events = History(directory / "run").read()
    return {
        "attempts": sum(isinstance(event, AttemptStarted) for event in events),
        "checkpoints": sum(isinstance(event, CheckpointWritten) for event in events),
        "changes": [list(event.changes) for event in events if isinstance(event, AttemptStarted)],
        "planned_bytes": [event.planned_bytes for event in events if isinstance(event, Planned)],
        "notes": [event.text for event in events if isinstance(event, Note)],
    }


def is_kept(result: Measured, spread: float) -> bool:
    """Whether a run ended as the undisturbed one."""
    if not result.get("ends") or not result["once_per_epoch"] or not result["equal_order"] or result["again_differs"]:
        return False
    if result["equal_weights"] and result["equal_losses"]:
        return True
    return _has_other_plan(result) and result["deviation"] is not None and result["deviation"] <= spread


def _is_disturbed(result: Measured) -> bool:
    """Whether the fault ended a process: a backup may fit on a disk that is nearly full."""
    return result.get("attempts", len(result["codes"])) > 1


def _has_other_plan(result: Measured) -> bool:
    return any(changes for changes in result.get("changes", ())) or result.get("fault") == "limit"


# -- the report --------------------------------------------------------------------------------------------------------

COLUMNS = (
    "fault", "runs", "starts by hand, at most", "steps trained again", "ended as undisturbed",
    "of these bit for bit", "each sample once per epoch",
    "BackupAndRestore: runs", "reached the end", "same weights", "samples repeated", "samples lost",
)  # fmt: skip


def report(measured: Sequence[tuple[Case, Measured]], spread: float) -> Section:
    """Return the table of all runs by fault; `spread` is the deviation among plain runs."""
    ended = [(case, result | {"fault": case.fault}) for case, result in measured if "ends" in result]
    known = [(case, result) for case, result in ended if _is_disturbed(result)]
    cells = []
    for fault, words in FAULTS.items():
        ours = [result for case, result in known if (case.fault, case.keeper) == (fault, LOWTIDE)]
        theirs = [result for case, result in known if (case.fault, case.keeper) == (fault, BACKUP)]
        if ours:
            cells.append([words, *_cells_of_lowtide(ours, spread), *_cells_of_peer(theirs)])
    ours = [result for case, result in known if case.keeper == LOWTIDE]
    kept = [result for result in ours if is_kept(result, spread)]
    exact = sum(result["equal_weights"] and result["equal_losses"] for result in kept)
    once = sum(result["once_per_epoch"] for result in ours)
    bars = [
        Bar("at least 200 runs with a fault", f"{len(ours)}", len(ours) >= 200),
        Bar(
            "every run ends with the weights and losses of an undisturbed one",
            f"{len(kept)} of {len(ours)}; {exact} bit for bit, the others planned differently",
            len(kept) == len(ours),
        ),
        Bar("each sample is trained exactly once per epoch", f"{once} of {len(ours)}", once == len(ours)),
    ]
    notes = [_note(case, result) for case, result in known if case.keeper == LOWTIDE and not is_kept(result, spread)]
    notes += [f"{case.name}: {result['failed']}" for case, result in measured if "failed" in result]
    killed = [result for result in ours if result["fault"] == "checkpoint"]
    if killed:
        beside = sum("lowtide checkpoint" in (result["happened"] or "") for result in killed)
        notes.append(
            f"of {len(killed)} SIGKILLs inside a checkpoint {beside} hit one that was written in the background"
        )
    if len(known) < len(ended):
        names = ", ".join(case.name for case, result in ended if not _is_disturbed(result))
        notes.append(f"left out, because the fault had no effect: {names}")
    notes.append(f"relative deviation among plain runs with and without oneDNN's kernels: {spread:.1e}")
    return Section("Faults", COLUMNS, cells, bars, notes)


def _cells_of_lowtide(results: list[Measured], spread: float) -> list[str]:
    kept = [result for result in results if is_kept(result, spread)]
    return [
        str(len(results)),
        str(max(len(result["codes"]) for result in results)),
        f"{sum(result['steps_again'] for result in results) / len(results):.1f}",
        str(len(kept)),
        str(sum(result["equal_weights"] and result["equal_losses"] for result in kept)),
        str(sum(result["once_per_epoch"] for result in results)),
    ]


def _cells_of_peer(results: list[Measured]) -> list[str]:
    ended = [result for result in results if result["ends"]]
    return [
        str(len(results)),
        str(len(ended)),
        str(sum(result["equal_weights"] for result in ended)),
        str(sum(result["repeated"] for result in ended)),
        str(sum(result["lost"] for result in ended)),
    ]


def _note(case: Case, result: Measured) -> str:
    facts = {name: result[name] for name in ("codes", "repeated", "lost", "again_differs", "deviation")}
    return f"{case.name}, step {case.step}: {facts} {result.get('unfinished', '')}"


def measure_spread(chosen: Sequence[Case], runs: TrainRuns) -> float:
    """Return by how much plain runs of one program differ, with oneDNN's kernels and without."""
    programs = {case.program: case for case in chosen if case.keeper == LOWTIDE and case.data == "arrays"}
    found = [0.0]
    for case in programs.values():
        weights = [reference(case, runs, variant).get("weights", []) for variant in ("", "TF_ENABLE_ONEDNN_OPTS=0")]
        found.append(deviation(weights[1], weights[0]) or 0.0)
    return max(found)


def can_mount() -> bool:
    """Whether a small disk can be mounted here."""
    return os.geteuid() == 0 and shutil.which("mount") is not None
