"""Plans a program at each promised budget with one tuned number varied. Nothing is trained."""

# ruff: noqa: E402  the number is set before any module of planning is imported
from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import Any

from lowtide.planning import tuning


def vary(arguments: list[str]) -> None:
    """Set the tuned number that `--vary NAME=JSON` gives."""
    if "--vary" in arguments:
        name, _, text = arguments[arguments.index("--vary") + 1].partition("=")
        value = json.loads(text)
        value = tuple(value) if isinstance(value, list) else value
        tuning.TUNING = dataclasses.replace(tuning.TUNING, **{name: value})


vary(sys.argv)

import keras

import lowtide as lt
from benchmarks.fit.children.common import answer, parser
from benchmarks.fit.programs import build
from benchmarks.fit.suite import PROMISED_SHARES, find


def plan_all(options: argparse.Namespace) -> dict[str, Any]:
    program = build(find(options.name))
    target = program.step or program.model
    tide = lt.predict(target, *program.specs)
    held = int(tide.curve.bytes_in_use[0])
    plans = []
    for share in PROMISED_SHARES:
        budget = held + int(share * (tide.safe_bytes - held))
        keras.backend.clear_session()
        try:
            plan = lt.plan(target, *program.specs, budget=budget, only="recompute" if program.model else None)
        except lt.LowtideError:
            plans.append(None)
        else:
            plans.append({"promised": plan.peak_bytes / budget, "slowdown": plan.slowdown})
    return {"plans": plans}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--vary", help="a field of planning/tuning.py and its value as JSON: first_margin=0.08")
    answer(arguments.parse_args(), plan_all)


if __name__ == "__main__":
    main()
