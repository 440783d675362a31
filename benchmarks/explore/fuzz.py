"""Give damaged files to every reader: `python -m benchmarks.explore.fuzz --inputs 100000`.

Each input has a number that it can be made from again. It runs in a process with a limit on its memory, and is stopped
when it takes too long; what ends in any other way than an answer or a refusal is written down with its input.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from benchmarks.explore.mutate import mutate
from benchmarks.explore.targets import TARGETS, FuzzTarget

_SECONDS = 5.0
_MEMORY_BYTES = 256 << 20
# A process that does not even answer the clock has this many times as long before it is ended.
_PATIENCE = 4
_REPORTED = 500


class TooLongError(BaseException):
    """Raised by the clock, and not an Exception, so that no reader can mistake it for damage."""


@dataclass(frozen=True)
class Failure:
    """An input that ended in another way than it may."""

    target: str
    number: int
    what: str


@dataclass
class FuzzOutcome:
    """How many inputs were given to a target, and what went wrong."""

    target: str
    inputs: int
    accepted: int
    slowest_seconds: float
    peak_bytes: int
    failures: list[Failure]


def fuzz(
    target: FuzzTarget,
    seeds: Sequence[bytes],
    numbers: range,
    seconds: float = _SECONDS,
    memory_bytes: int = _MEMORY_BYTES,
) -> FuzzOutcome:
    """Give the inputs of these numbers to a target. A process that dies loses one input, and the next one goes on."""
    outcome = FuzzOutcome(target.name, 0, 0, 0.0, 0, [])
    context = multiprocessing.get_context("fork")
    left = numbers
    while left:
        receiving, sending = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(target, seeds, left, seconds, memory_bytes, sending))
        child.start()
        sending.close()
        done = _listen(receiving, outcome, seconds)
        if done < len(left):
            child.kill()
            child.join()
            number = left[done]
            what = "it did not end" if child.exitcode == -signal.SIGKILL else f"the process ended with {child.exitcode}"
            outcome.failures.append(Failure(target.name, number, what))
            outcome.inputs += 1
            done += 1
        child.join()
        left = left[done:]
    return outcome


def _listen(receiving: Connection, outcome: FuzzOutcome, seconds: float) -> int:
    """Receive the results of a process until it is done, dead or stuck; return how many inputs it finished."""
    done = 0
    while True:
        try:
            if not receiving.poll(seconds * _PATIENCE):
                return done
            accepted, took, peak_bytes, failure = receiving.recv()
        except EOFError:
            return done
        done += 1
        outcome.inputs += 1
        outcome.accepted += accepted
        outcome.slowest_seconds = max(outcome.slowest_seconds, took)
        outcome.peak_bytes = max(outcome.peak_bytes, peak_bytes)
        if failure is not None:
            outcome.failures.append(failure)


def _work(
    target: FuzzTarget, seeds: Sequence[bytes], numbers: range, seconds: float, memory_bytes: int, sending: Connection
) -> None:
    signal.signal(signal.SIGALRM, _stop)
    before = _peak_bytes()
    _limit_memory(memory_bytes)
    for number in numbers:
        data = mutate(seeds, number)
        accepted, failure = False, None
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            target.call(data)
            accepted = True
        except target.refusals:
            pass
        except TooLongError:
            failure = Failure(target.name, number, f"it took longer than {seconds:g} s")
        except BaseException:
            failure = Failure(target.name, number, traceback.format_exc(limit=-4))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sending.send((accepted, time.perf_counter() - start, _peak_bytes() - before, failure))


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def _limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to `more_bytes` beyond what it uses now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def read_seeds(folder: Path) -> dict[str, bytes]:
    """Every file below a folder that is small enough to be read thousands of times, by its name."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and 0 < path.stat().st_size < 1 << 20)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def seeds_for(target: FuzzTarget, seeds: Mapping[str, bytes]) -> list[bytes]:
    """Every seed, and those that the target is made for as often as all others together."""
    own = [data for name, data in seeds.items() if target.seeds in name]
    return [*seeds.values(), *own * (len(seeds) // len(own) if own else 0)]


def make_seeds(folder: Path) -> None:
    """Let TensorFlow write the files to start from, in a process that takes its memory with it."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-m", "benchmarks.explore.seeds", str(folder)], env=environment, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many inputs, over all targets")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input of each target")
    parser.add_argument("--target", choices=[target.name for target in TARGETS], help="one target alone")
    parser.add_argument("--seeds", type=Path, help="a folder of files to damage; without it TensorFlow writes some")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="how long one input may take")
    parser.add_argument("--memory", type=int, default=_MEMORY_BYTES, help="how many bytes one input may take")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs that failed")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if chosen.seeds is None:
            make_seeds(Path(made))
        seeds = read_seeds(chosen.seeds or Path(made))
    targets = [target for target in TARGETS if chosen.target in (None, target.name)]
    each = -(-chosen.inputs // len(targets))
    failed = 0
    for target in targets:
        numbers = range(chosen.first, chosen.first + each)
        own = seeds_for(target, seeds)
        outcome = fuzz(target, own, numbers, chosen.seconds, chosen.memory)
        _print(outcome)
        failed += len(outcome.failures)
        if chosen.keep is not None:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            for failure in outcome.failures:
                (chosen.keep / f"{failure.target}-{failure.number}").write_bytes(mutate(own, failure.number))
    return 1 if failed else 0


def _print(outcome: FuzzOutcome) -> None:
    print(
        f"{outcome.target:12} {outcome.inputs:>9,} inputs, {outcome.accepted:>9,} accepted, "
        f"slowest {outcome.slowest_seconds:.3f} s, {outcome.peak_bytes / (1 << 20):.0f} MiB more at most, "
        f"{len(outcome.failures)} failed",
        flush=True,
    )
    for failure in outcome.failures[:10]:
        print(f"  input {failure.number}: {failure.what[-_REPORTED:]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
