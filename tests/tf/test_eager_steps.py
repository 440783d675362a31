"""Steps that run op by op under lowtide run: what holds their memory, when they begin, and why they run out."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lowtide.tide.explain import alive_at
from lowtide.tide.tide import Tide
from tests.children import run_python

PROGRAM = Path(__file__).parent / "programs" / "record_eager.py"
FORWARD_LINE = 1 + PROGRAM.read_text().splitlines().index(
    next(line for line in PROGRAM.read_text().splitlines() if "the line of the forward pass" in line)
)
# A step at a batch of 256 takes more than 250 MiB.
CASES = {
    "layers": ("layers", "64", None, "1"),
    "ops": ("ops", "64", None, "0"),
    "out": ("layers", "256", "150MiB", "0"),
    "first op": ("layers", "512", "100MiB", "0"),
    "call": ("call", "512", "150MiB", "0"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eager")

    def run(name):
        kind, batch, limit, onednn = CASES[name]
        saved = folder / f"{kind}-{batch}.tide"
        words = ["-m", "lowtide", "run", "--json", "--save", str(saved), *(("--limit", limit) if limit else ())]
        done = run_python(*words, str(PROGRAM), kind, batch, ends_well=limit is None, TF_ENABLE_ONEDNN_OPTS=onednn)
        assert done.stdout.startswith("{"), done.stderr[-3000:]
        peaks = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("peak ")]
        tide = Tide.load(saved) if saved.exists() else None
        return json.loads(done.stdout), tide, {int(step): int(peak) for step, peak in peaks}

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


def held(tide, *kinds, of=lambda buffers, row: True):
    """The bytes at the peak of some kinds, of all or of those for which `of` holds."""
    buffers = tide.buffers
    rows = [row for row in alive_at(tide, tide.peak_event).tolist() if not kinds or buffers.kind_of(row) in kinds]
    return sum(int(buffers.allocated[row]) for row in rows if of(buffers, row))


@pytest.mark.parametrize("name", ["layers", "ops"])
def test_nearly_all_bytes_have_a_kind_and_a_line(runs, name):
    _, tide, _ = runs[name]
    assert held(tide, "other") < 0.05 * held(tide)
    made = held(tide, "activations", "gradients")
    assert made > 0.6 * held(tide)
    assert held(tide, "activations", "gradients", of=lambda buffers, row: buffers.source[row]) > 0.95 * made
    assert held(tide, "input") >= 64 * 32 * 32 * 3 * 4
    assert tide.batch_size == 64


def test_tensors_of_both_passes_and_slot_variables_have_the_layer(runs):
    _, tide, _ = runs["layers"]
    buffers = tide.buffers
    for kind in ("activations", "gradients", "weights", "optimizer"):
        assert held(tide, kind, of=lambda buffers, row: buffers.layer[row]) > 0.8 * held(tide, kind) > 0
    layers = {(buffers.layer[row], buffers.kind_of(row)) for row in range(len(buffers.name))}
    named = {(layer, kind) for layer in ("first", "norm", "second") for kind in ("activations", "gradients")}
    assert named <= layers
    # A bias has no tensor of the forward pass in its gradient; it is found by the gradient that it receives.
    ops = {(buffers.op[row], buffers.layer[row]) for row in range(len(buffers.name))}
    assert {("BiasAddGrad", "first"), ("BiasAddGrad", "second"), ("BiasAddGrad", "head")} <= ops


def test_the_gradient_of_a_plain_op_has_the_line_of_that_op(runs):
    _, tide, _ = runs["ops"]
    buffers = tide.buffers
    lines = {
        (buffers.op[row], buffers.kind_of(row)): buffers.source[row]
        for row in range(len(buffers.name))
        if buffers.op[row] in ("Conv2D", "ReluGrad", "Conv2DBackpropFilter") and buffers.kind_of(row) != "workspace"
    }
    assert set(lines.values()) == {f"{PROGRAM.name}:{FORWARD_LINE}"}
    assert {kind for _, kind in lines} == {"activations", "gradients"}


@pytest.mark.parametrize("name", ["layers", "ops"])
def test_a_step_lasts_from_one_update_to_the_next_and_its_peak_is_the_allocators(runs, name):
    _, tide, peaks = runs[name]
    recorded = {each.step: each.peak_bytes for each in tide.recording.steps}
    # A thread may free a small tensor a step later than it usually does.
    assert recorded == pytest.approx({step: peaks[step] for step in (11, 12, 13)}, rel=0, abs=4096)
    assert tide.peak_bytes == pytest.approx(peaks[tide.recording.step], rel=0, abs=4096)


@pytest.mark.parametrize(("name", "batch"), [("out", 256), ("first op", 512)])
def test_a_step_that_is_too_large_is_not_fragmentation(runs, name, batch):
    answer, _, _ = runs[name]
    (shortage,) = answer["shortages"]
    assert (shortage["cause"]["name"], shortage["batch_size"], shortage["step"]) == ("batch", batch, 1)
    assert f"at a batch of {batch}" in shortage["cause"]["sentence"]
    assert shortage["request"]["source"].startswith(PROGRAM.name)
    # Nothing was computed for an eager step, so nothing is promised.
    assert shortage["largest_batch_size"] is shortage["planned_slowdown"] is None
    advice = " ".join(shortage["cause"]["advice"])
    assert "@tf.function" in advice
    assert "@lt.function(budget=" in advice
    assert "lowtide run" not in advice
    assert "try " not in advice


def test_a_model_that_is_called_without_a_tape_is_not_fragmentation(runs):
    answer, _, _ = runs["call"]
    (shortage,) = answer["shortages"]
    assert shortage["cause"]["name"] != "fragmentation"
    assert "@tf.function" in " ".join(shortage["cause"]["advice"])


def test_what_an_eager_step_holds_when_it_runs_out_has_its_layer(runs):
    answer, _, _ = runs["out"]
    (shortage,) = answer["shortages"]
    kinds = shortage["by_kind"]
    assert kinds["activations"] > kinds.get("other", 0) + kinds.get("unknown", 0)
    assert {"first", "norm"} & {share["layer"] for share in shortage["by_layer"]}
