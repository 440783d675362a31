"""Each op's fact against the real allocator: one op alone, with inputs that are held and inputs that are free."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lowtide.program.dtypes import element_bytes
from lowtide.program.facts import catalog
from lowtide.program.facts.op_fact import OpFact
from lowtide.program.graph import NodeView
from lowtide.program.machine import Machine, current_machine, use_machine
from tests.tf.op_cases import CASES
from tests.tf.probe import Case, Observed, Probes, run_probes
from tests.unit.graphs import one_node

pytestmark = pytest.mark.tensorflow

# Kernels that finish later, on another thread: the executor notes no time for them.
ASYNCHRONOUS = {"CropAndResize"}
# Ops that the simulator follows itself: only their cost is a fact.
SIMULATED = {"ReadVariableOp"}


def view_of(op: str, seen: Observed) -> NodeView:
    """The observed node in a graph of its own, behind one node for each input."""
    tensors = [*seen.inputs, *seen.outputs]
    shapes = [None if entry["shape"] is None else tuple(entry["shape"]) for entry in tensors]
    values = {index: np.array(entry["value"]) for index, entry in enumerate(seen.inputs) if entry["value"] is not None}
    attributes = {key: tuple(value) if isinstance(value, list) else value for key, value in seen.attributes.items()}
    return one_node(op, len(seen.inputs), [entry["dtype"] for entry in tensors], shapes, attributes, values)


def resolve(fact: OpFact, node: NodeView) -> tuple[list, list, list]:
    pick = lambda part: list(part(node) if callable(part) else part or ())  # noqa: E731
    return pick(fact.aliases), pick(fact.forwards), pick(fact.temporaries)


def expected_outputs(fact: OpFact, node: NodeView, seen: Observed, free: bool) -> list[int]:
    """Bytes of each output that needs a buffer of its own."""
    aliases, forwards, _ = resolve(fact, node)
    placed = {output for output, _ in aliases}
    taken: set[int] = set()
    for output, index in forwards if free else ():
        source, target = seen.inputs[index], seen.outputs[output]
        is_free = source["value"] is None and index not in taken
        fits = source["dtype"] == target["dtype"] and math.prod(source["shape"]) == math.prod(target["shape"])
        if output not in placed and is_free and fits:
            placed.add(output)
            taken.add(index)
    sizes = [math.prod(entry["shape"]) * element_bytes(entry["dtype"]) for entry in seen.outputs]
    return sorted(size for index, size in enumerate(sizes) if index not in placed and size)


def round_up(size: int) -> int:
    return -(-size // 256) * 256


def check(case: Case, seen: Observed, free: bool) -> None:
    assert seen.error is None, seen.error
    fact = catalog.fact_of(case.op)
    assert fact is not None, f"no fact for {case.op}"
    assert seen.ran_as_expensive is not (fact.cheap or case.op in ASYNCHRONOUS)
    if case.op in SIMULATED:
        return
    node = view_of(case.op, seen)
    assert sorted(seen.kept) == expected_outputs(fact, node, seen, free), seen.stream
    temporaries = sum(round_up(size) for size in resolve(fact, node)[2])
    least = temporaries * (1 - case.chance)
    assert least <= seen.peak_extra <= temporaries, (seen.peak_extra, temporaries, seen.stream)


def identifiers() -> list[str]:
    return [f"{index}-{case.label}" for index, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def probes() -> Probes:
    """What all cases did, from one child process. A fixture, so that a child that fails is started once."""
    return run_probes(CASES, current_machine().intra_op_threads)


@pytest.mark.parametrize("free", [False, True], ids=["held", "free"])
@pytest.mark.parametrize("index", range(len(CASES)), ids=identifiers())
def test_fact_agrees_with_the_allocator(probes: Probes, index: int, free: bool) -> None:
    check(CASES[index], probes.runs[index, free], free)


def test_facts_of_ops_that_ask_for_threads_hold_for_another_count() -> None:
    asking = [case for case in CASES if "Conv" in case.op or case.op in ("BiasAddGrad", "Bincount")]
    here = current_machine()
    use_machine(replace(Machine.here(), intra_op_threads=4))
    try:
        for (index, free), each in run_probes(asking, 4).runs.items():
            check(asking[index], each, free)
    finally:
        use_machine(here)


def test_the_cases_reach_many_ops() -> None:
    assert len({case.op for case in CASES}) > 150


def test_every_stated_op_exists(probes: Probes) -> None:
    assert [op for op in catalog.known_ops() if op not in probes.registered_ops] == []
