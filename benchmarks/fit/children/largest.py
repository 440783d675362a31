"""The largest batch for which there is a plan within a budget. Nothing is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras

from benchmarks.fit.children.common import answer, parser
from benchmarks.fit.children.ways import make_plan
from benchmarks.fit.programs import build
from benchmarks.fit.suite import RECOMPUTED, find
from lowtide import LowtideError


def search(fits: Callable[[int], bool], known: int, stride: int, most: int) -> int:
    """The largest multiple of `stride` up to `most` that fits; `known` fits."""
    low, high = known // stride, most // stride + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * stride) else (low, middle)
    return low * stride


def find_largest(options: argparse.Namespace) -> dict[str, Any]:
    case = find(options.name)
    tried: dict[int, bool] = {}

    def fits(batch_size: int) -> bool:
        keras.backend.clear_session()
        try:
            # In pieces any batch fits: what counts is what order and recomputation make room for.
            make_plan(build(case, batch_size), RECOMPUTED, options.budget)
        except LowtideError:
            tried[batch_size] = False
        else:
            tried[batch_size] = True
        return tried[batch_size]

    stride = max(case.batch_size // 8, 1)
    return {"largest": search(fits, case.batch_size, stride, 6 * case.batch_size), "tried": tried}


def main() -> None:
    answer(parser(__doc__).parse_args(), find_largest)


if __name__ == "__main__":
    main()
