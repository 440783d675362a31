"""Trains one program in one way for some steps: peaks, times, losses, and if asked all it has changed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fit.children.common import Meter, answer, parser, write
from benchmarks.fit.children.ways import prepare
from benchmarks.fit.programs import Program
from benchmarks.fit.suite import STEPS, find


def keep_variables(program: Program, path: Path) -> None:
    """Every variable as it is now, named by its kind."""
    kept = {
        f"{kind}/{name}": variable.numpy()
        for kind, variables in program.variables().items()
        for name, variable in variables.items()
    }
    np.savez(path, **kept)


def train(options: argparse.Namespace) -> dict[str, Any]:
    case = find(options.name)
    trainee = prepare(case, options.way, options.budget, options.batch_size, options.batches)
    meter = Meter()
    losses: list[list[float]] = []
    for _ in range(options.steps):
        losses.append(meter.run(trainee))
        # A step that does not fit may end the process: what came before it is known then.
        write(options, {**meter.to_dict(), **trainee.planned})
    if options.variables is not None:
        keep_variables(trainee.program, options.variables)
    return {**meter.to_dict(), "losses": losses, **trainee.planned}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--way", required=True)
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--batches", type=int, default=1, help="different batches that take turns")
    arguments.add_argument("--variables", type=Path, help="where to keep all variables after the last step")
    answer(arguments.parse_args(), train)


if __name__ == "__main__":
    main()
