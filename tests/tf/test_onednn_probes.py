"""Each oneDNN kernel, run alone on the real allocator, allocates what its fact says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowtide.program.facts.catalog import fact_of
from lowtide.program.facts.onednn_isa import VectorIsa, current_isa
from lowtide.program.graph import Graph, NodeView
from lowtide.program.machine import Machine, current_machine, use_machine
from tests.children import run_python

THREADS = 2
FLOAT32 = 1

# Outputs that the kernel makes beside the first, where the traced graph has another node for them.
FURTHER_OUTPUTS = {
    "_MklNativeFusedBatchNormV3": [(20,)] * 4,
    "_MklNativeFusedBatchNormEx": [(20,)] * 4,
    "_MklNativeFusedBatchNormGradV3": [(20,), (20,), (), ()],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("onednn") / "found.json"
    program = Path(__file__).with_name("onednn_probe.py")
    done = run_python(program, THREADS, out, limit_mib=2000, ends_well=False, TF_ENABLE_ONEDNN_OPTS="1")
    assert out.exists(), done.stderr[-3000:]
    return dict(json.loads(out.read_text()))


@pytest.fixture(autouse=True)
def machine_of_the_probes() -> Any:
    before = current_machine()
    use_machine(Machine(THREADS, 1, before.l1_cache_bytes, before.l2_cache_bytes, before.l3_cache_bytes))
    yield
    use_machine(before)


def _view(row: dict[str, Any]) -> NodeView:
    """The observed node in a graph of its own: the inputs are nodes that only make tensors."""
    inputs = row["inputs"]
    shapes = [row["outputs"][0]["shape"], *FURTHER_OUTPUTS.get(row["op"], [])]
    tensors = [*inputs, *({"shape": shape, "value": None} for shape in shapes)]
    count = len(inputs)
    return Graph(
        names=[*(f"input{index}" for index in range(count)), row["node"]],
        ops=["Placeholder"] * count + [row["op"]],
        attributes=[{}] * count + [row["attributes"]],
        first_input=[0] * (count + 1) + [count],
        inputs=list(range(count)),
        first_control=[0] * (count + 2),
        controls=[],
        first_output=[*range(count + 1), len(tensors)],
        dtypes=[tensor.get("dtype", FLOAT32) for tensor in tensors],
        shapes=[None if tensor["shape"] is None else tuple(tensor["shape"]) for tensor in tensors],
        values={index: np.asarray(x["value"]) for index, x in enumerate(inputs) if x["value"] is not None},
    ).view(count)


def _stated_outputs(view: NodeView, free: bool) -> Counter[int]:
    """The bytes of each output that gets a buffer of its own."""
    fact = fact_of(view.op)
    assert fact is not None, view.op
    aliases = fact.aliases(view) if callable(fact.aliases) else fact.aliases
    forwards = fact.forwards(view) if callable(fact.forwards) else fact.forwards
    shared = {output for output, _ in aliases} | ({output for output, _ in forwards} if free else set())
    sizes = {output: view.output_bytes(output) for output in range(view.output_count)}
    sizes |= fact.sizes(view) if fact.sizes is not None else {}
    return Counter(size for output, size in sizes.items() if output not in shared and size)


def _stated_temporaries(view: NodeView) -> Counter[int]:
    fact = fact_of(view.op)
    return Counter(fact.temporaries(view) if fact and fact.temporaries else ())


def test_the_rewriting_is_the_expected_one(found: dict[str, Any]) -> None:
    missing = [(row["op"], row["label"]) for row in found["rows"] if row["node"] is None]
    assert not missing


def test_outputs_are_made_or_taken_over_as_stated(found: dict[str, Any]) -> None:
    wrong = []
    for row in found["rows"]:
        recorded = Counter(size for size, region in row["allocations"] if region == "output")
        stated = _stated_outputs(_view(row), row["free"])
        # Einsum makes all its buffers alike and hands out the last one.
        if row["op"] != "_MklEinsum" and stated != recorded:
            wrong.append((row["op"], row["label"], row["free"], dict(recorded), dict(stated)))
    assert not wrong


@pytest.mark.skipif(current_isa() is not VectorIsa.AVX2, reason="scratchpads are stated exactly for AVX2 only")
def test_kernels_allocate_what_their_facts_say(found: dict[str, Any]) -> None:
    wrong = []
    for row in found["rows"]:
        view = _view(row)
        stated = _stated_outputs(view, row["free"]) + _stated_temporaries(view)
        recorded = Counter(size for size, _ in row["allocations"])
        if stated != recorded:
            wrong.append((row["op"], row["label"], row["free"], dict(recorded), dict(stated)))
    assert not wrong


def test_every_kernel_of_this_build_has_a_fact(found: dict[str, Any]) -> None:
    assert found["kernels"]
    assert not [op for op in found["kernels"] if fact_of(op) is None]


def test_kernels_use_the_allocator_that_is_measured(found: dict[str, Any]) -> None:
    assert len(found["allocators"]) == 1
    assert found["memory"]["current"] > 0
