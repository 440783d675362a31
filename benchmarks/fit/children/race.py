"""Runs one program in several ways in turn, so that what else the machine does falls on all of them.

Each way is a program of its own, with its own variables, in the same process.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import tensorflow as tf

from benchmarks.fit.children.common import Meter, answer, parser
from benchmarks.fit.children.ways import Trainee, prepare
from benchmarks.fit.programs import make_batch
from benchmarks.fit.suite import PLAIN, find
from lowtide import LowtideError

WARM_UP = 2
FORWARD = "forward"


def race(options: argparse.Namespace) -> dict[str, Any]:
    case = find(options.name)
    runners: dict[str, Any] = {}
    without: dict[str, str] = {}
    for lane in options.lanes:
        way, _, budget = lane.partition("=")
        try:
            runners[lane] = prepare(case, way, int(budget) if budget else None, options.batch_size)
        except LowtideError as error:
            without[lane] = f"refused: {error}"
        except Exception as error:  # a peer that cannot be built is reported, and the others continue
            without[lane] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    meters = {lane: Meter() for lane in runners}
    for lane, runner in list(runners.items()):
        try:
            for _ in range(WARM_UP):
                runner()
        except Exception as error:
            without[lane] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            del runners[lane], meters[lane]
    chance = random.Random(0)
    for _ in range(options.rounds):
        # A way that runs twice in a row finds its weights in the cache, as in training; the first is chosen at random.
        for lane in chance.sample(list(runners), len(runners)):
            runners[lane]()
            meters[lane].run(runners[lane])
    if PLAIN in runners:
        forward, meters[FORWARD] = _forward(runners[PLAIN]), Meter()
        forward()
        for _ in range(options.rounds):
            meters[FORWARD].run(forward)
        runners[FORWARD] = forward
    lanes_seen = {lane: meters[lane].to_dict() | getattr(runners[lane], "planned", {}) for lane in runners}
    return {"lanes": lanes_seen, "without": without}


def _forward(trainee: Trainee) -> Any:
    """The forward pass alone: what an extra one would take."""
    program = trainee.program
    function = tf.function(program.forward)
    batch = make_batch(program.specs)
    return lambda: function(*batch)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--lanes", nargs="+", required=True, help="a way, or way=budget")
    arguments.add_argument("--rounds", type=int, default=9)
    answer(arguments.parse_args(), race)


if __name__ == "__main__":
    main()
