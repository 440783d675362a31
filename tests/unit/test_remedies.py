"""What holds the peak of a small tide, and remedies as they are ranked and shown."""

import io
import json

import pytest
from rich.console import Console

from lowtide.planning.remedies.at_peak import (
    at_the_peak,
    cheap_activations,
    cheap_holder,
    dominant_layers,
    float32_holder,
    kind_holders,
    state_bytes,
    wide_slots,
)
from lowtide.planning.remedies.remedy import BOUND, PEAK, PROCESS, Examination, Remedy, lowered, name_some, rank
from lowtide.view.reports.remedies import RemedyReport
from lowtide.view.terminal.remedies import TerminalRemedies
from tests.conftest import TINY, make_tide

KiB = 1024


def test_layers_are_listed_with_what_a_smaller_batch_leaves(tide):
    """At the peak, event 4, dense holds 4096 of activations and 1024 of gradients; its workspace is freed."""
    (layer,) = dominant_layers(tide)
    assert (layer.name, layer.bytes) == ("dense", 5120)
    assert layer.detail == "activations 4 KiB, gradients 1 KiB"
    rows = [row[:6] + (2000, 2048) + row[8:] if row[0] == "dense/Relu:0" else row for row in TINY]
    half = make_tide(rows, [3584, 5632, 6144, 5632, 6656, 4608, 3584], peak_bytes=6656, batch_size=2)
    assert dominant_layers(tide, half)[0].detail.endswith("; 3 KiB at batch 2")


def test_a_layer_without_activations_does_not_dominate(tide):
    rows = [row for row in TINY if row[3] in ("weights", "optimizer", "input")]
    assert dominant_layers(make_tide(rows, [3584] * 7, peak_bytes=3584)) == []


def test_activations_are_cheap_by_their_share_of_time_and_memory(tide):
    """Relu holds 4096 of 8704: it is cheap up to a tenth of 47% of the time."""
    cheap, share = cheap_activations(tide, {"dense/Relu": 4.0, "dense/MatMul": 96.0})
    assert [owner.name for owner in cheap] == ["dense/Relu:0"]
    assert share == pytest.approx(0.04)
    assert cheap_activations(tide, {"dense/Relu": 6.0, "dense/MatMul": 94.0}) == ([], 0.0)
    # Without a time nothing is called cheap.
    assert cheap_activations(tide, {"dense/MatMul": 100.0})[0] == []
    (holder,) = cheap_holder(tide, {"dense/Relu": 4.0, "dense/MatMul": 96.0})
    assert holder.bytes == 4096
    assert holder.detail == "Relu 4 KiB; computing all of them again takes 4.0% of the step's time"


def test_float32_counts_only_in_half_precision_layers(tide):
    (holder,) = float32_holder(tide, {"dense"})
    assert (holder.bytes, holder.detail) == (5120, "dense 5 KiB")
    assert list(float32_holder(tide, {"other"})) == []
    halved = [row[:4] + ("bfloat16",) + row[5:] for row in TINY]
    assert list(float32_holder(make_tide(halved), {"dense"})) == []


def test_slots_that_are_wider_than_their_variables():
    kernel, slot, *rest = TINY
    half = kernel[:4] + ("float16", (50, 10)) + kernel[6:]
    assert [owner.name for owner in wide_slots(make_tide([half, slot, *rest]))] == [slot[0]]
    assert wide_slots(make_tide()) == []


def test_kinds_that_hold_much_of_the_peak(tide):
    """Slack is 8704 allocated - 8500 requested, too little to be listed."""
    found = {holder.kind: holder.bytes for holder in kind_holders(tide)}
    assert found == {"weights": 1000, "optimizer": 2000}
    wasteful = [row[:7] + (8192,) + row[8:] if row[0] == "dense/Relu:0" else row for row in TINY]
    curve = [3584, 11776, 12288, 11776, 12800, 4608, 3584]
    found = {holder.kind: holder for holder in kind_holders(make_tide(wasteful, curve, peak_bytes=12800))}
    assert found["slack"].bytes == 12800 - 8500
    assert "8 KiB are given for 3.91 KiB of dense" in found["slack"].detail


def test_the_state_is_what_is_there_before_the_step(tide):
    assert state_bytes(tide) == 2000
    assert len(at_the_peak(tide)) == tide.alive_at_peak == 5


def test_remedies_are_ranked_and_small_ones_left_out():
    small, large, options = (
        Remedy("remat", "small", "do", 4 * KiB),
        Remedy("constants", "large", "do", 90 * KiB, PROCESS),
        Remedy("batch", "option", "do", 40 * KiB, changes="half as many examples"),
    )
    found = rank([small, options, large], 100 * KiB)
    assert [remedy.problem for remedy in found] == ["large", "option"]
    assert Examination("t", found, total_bytes=100 * KiB).problems == (large,)
    assert rank([small], 100 * KiB, 0.04) == (small,)


def test_a_remedy_is_the_difference_of_two_tides(tide):
    after = make_tide(peak_bytes=8000, safe_bytes=8100)
    remedy = lowered(tide, after, "remat", "p", "a", slowdown=0.02)
    assert (remedy.saves_bytes, remedy.peak_bytes, remedy.safe_bytes) == (704, 8000, 8100)
    assert remedy.fits(8100)
    assert not remedy.fits(8099)
    assert Remedy("constants", "p", "a", 5, PROCESS).fits(1) is None


def test_a_remedy_that_lowers_the_bound_alone(tide):
    """The peak falls from 8704 to 8600, the safe bound from 9216 to 8610."""
    after = make_tide(peak_bytes=8600, safe_bytes=8610)
    remedy = lowered(tide, after, "remat", "p", "a", 0.05)
    assert (remedy.of, remedy.saves_bytes) == (BOUND, 606)
    assert RemedyReport(Examination("t", (remedy,))).saving(remedy) == "of the safe bound: 8.41 KiB"
    remedy = lowered(tide, after, "remat", "p", "a", 0.01)
    assert (remedy.of, remedy.saves_bytes) == (PEAK, 104)


def test_a_saving_is_limited_to_what_has_a_reason(tide):
    remedy = lowered(tide, make_tide(peak_bytes=8000, safe_bytes=8100), "optimizer", "p", "a", most_bytes=500)
    assert (remedy.saves_bytes, remedy.peak_bytes) == (500, 8204)
    remedy = lowered(tide, make_tide(peak_bytes=8000, safe_bytes=8100), "optimizer", "p", "a", most_bytes=1000)
    assert (remedy.saves_bytes, remedy.peak_bytes) == (704, 8000)


def test_names_are_listed_once():
    assert name_some(["a", "b", "a"]) == "a, b"
    assert name_some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.fixture
def report(tide) -> RemedyReport:
    after = make_tide(peak_bytes=6528, safe_bytes=7000)
    remedies = (
        Remedy("constants", "a constant of 8 KiB is in the graph", "hold it", 8192, PROCESS, source="train.py:3"),
        lowered(tide, after, "batch", "1 KiB grows", "a batch of 2", changes="fewer examples"),
        lowered(tide, after, "remat", "2 tensors", "lt.fit_in", slowdown=0.02),
    )
    holders = tuple(dominant_layers(tide))
    return RemedyReport(Examination("train.py:build", remedies, tide, holders, ("a note",), 8704), 8192)


def test_the_report_in_the_terminal(report):
    out = io.StringIO()
    Console(file=out, width=150).print(TerminalRemedies(report))
    text = out.getvalue()
    assert "train.py:build · batch 5" in text
    assert "peak 8.5 KiB; 3 remedies, 2 of them without any change of results" in text
    assert "✗ does not fit in 8 KiB: 1 KiB too much" in text
    assert "5 KiB  59%  dense" in text
    assert "saves 8 KiB of the process" in text
    assert "train.py:3  a constant" in text
    assert "saves 2.12 KiB at the peak, 25%: 6.38 KiB" in text
    assert "changes results: fewer examples; fits in 8 KiB with this alone" in text
    assert "+2% time, estimated; results stay the same" in text
    assert "note: a note" in text


def test_the_report_as_json(report):
    data = json.loads(json.dumps(report.to_dict()))
    assert data["schema_version"] == 1
    assert data["peak_bytes"] == 8704
    assert data["budget"] == {"bytes": 8192, "fits": False}
    assert [remedy["fits"] for remedy in data["remedies"]] == [None, True, True]
    assert data["problems"] == 2
    assert data["holders"][0]["name"] == "dense"
