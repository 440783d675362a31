"""The gradient that a step in some way applies, against finite differences of the plain loss with the same masks.

A step of plain gradient descent at rate 1 changes the weights by the gradient. The loss of the plain step is taken
at two points on both sides along that gradient, with every seed set back: its slope is the gradient's length.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.fit.children.common import answer, parser
from benchmarks.fit.children.ways import Trainee, prepare
from benchmarks.fit.programs import Program
from benchmarks.fit.suite import PLAIN, find

# By how much the loss should change: enough that two float32 losses differ by more than rounding.
CHANGES = (0.1, 0.03, 0.01)

Values = dict[str, Any]


def compare(options: argparse.Namespace) -> dict[str, Any]:
    case = find(options.name)
    trainee = prepare(case, options.way, options.budget, options.batch_size, descent=True)
    start = _values(trainee.program)
    gradient = _gradient(trainee, start)
    plain = prepare(case, PLAIN, None, options.batch_size, descent=True)
    _assign(plain.program, start)
    true = _gradient(plain, start)
    length = _length(gradient)
    slopes = {}
    for change in CHANGES:
        losses = []
        for sign in (1, -1):
            shift = {name: start[name] + sign * change / length**2 * part for name, part in gradient.items()}
            _assign(plain.program, {**start, **shift})
            losses.append(plain()[0])
        slopes[str(change)] = (losses[0] - losses[1]) / (2 * change / length)
    apart = _length({name: gradient[name] - true[name] for name in true}) / _length(true)
    return {"length": length, "slopes": slopes, "apart": apart}


def _gradient(trainee: Trainee, start: Values) -> Values:
    """What one step subtracts from the weights."""
    trainee()
    return {name: start[name] - value for name, value in _values(trainee.program).items() if _trained(name)}


def _length(parts: Values) -> float:
    return float(np.sqrt(sum(np.sum(np.square(part, dtype=np.float64)) for part in parts.values())))


def _trained(name: str) -> bool:
    return name.startswith("weights/")


def _values(program: Program) -> Values:
    return {
        f"{kind}/{place}": variable.numpy()
        for kind, variables in program.variables().items()
        for place, variable in enumerate(variables.values())
    }


def _assign(program: Program, values: Values) -> None:
    for kind, variables in program.variables().items():
        for place, variable in enumerate(variables.values()):
            variable.assign(values[f"{kind}/{place}"])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--way", required=True)
    answer(arguments.parse_args(), compare)


if __name__ == "__main__":
    main()
