"""The arithmetic of benchmarks/fit: budgets, distances, cuts, searches, the bars and the table."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.common import report
from benchmarks.fit import batches, cost, exactness, ordering, promise, speed
from benchmarks.fit.runs import activation_bytes, budget_for, ran_out
from benchmarks.fit.suite import CASES, COST_SHARES, LARGER_BATCHES, PLAIN, PLANNED, QUICK, find, select

MIB = 2**20
CASE = find("conv_chain")


def run(*peaks: int, before: int = 100, **others: object) -> dict[str, object]:
    """Peaks and what is there before, in MiB."""
    sizes = [peak * MIB for peak in peaks]
    return {"peaks": sizes, "before": [before * MIB] * len(sizes), "seconds": [1.0] * len(sizes), **others}


def promised(share: float, peaks: list[int], promised_mib: int, plain: dict[str, object]) -> promise.PromiseRow:
    planned = run(*peaks, promised_bytes=promised_mib * MIB)
    return promise.PromiseRow(CASE, share, 300 * MIB, 500 * MIB, planned, {PLAIN: plain})


def test_the_suite_has_what_the_bars_ask_for() -> None:
    assert len(CASES) >= 10
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.name for case in CASES if case.deterministic} == {"conv_chain", "mlp", "transformer24"}
    assert set(LARGER_BATCHES) <= {case.name for case in CASES}
    assert [case.name for case in select([], quick=True)] == list(QUICK)
    assert [case.name for case in select(["nothing"], quick=False)] == []
    assert [case.name for case in select(["NET"], quick=False)] == ["resnet50", "unet", "densenet121", "mobilenetv2"]


def test_the_budget_is_the_held_bytes_plus_a_share_of_the_steady_steps() -> None:
    seen = run(900, 900, 900, 900, 300, 301, 302)
    assert activation_bytes(seen) == 201 * MIB
    assert budget_for(seen, 0.5) == 200 * MIB
    assert budget_for({"failed": "no"}, 0.5) is None


def test_a_crash_counts_as_running_out_of_memory_and_a_failure_as_no_answer() -> None:
    assert ran_out({"ran_out": True}) is True
    assert ran_out({"crashed": "SIGSEGV"}) is True
    assert ran_out(run(1)) is False
    assert ran_out({"failed": "exit code 1"}) is None


def test_a_promise_holds_if_every_step_stays_below_it_and_the_plain_step_runs_out() -> None:
    good = promised(0.5, [200] * 20, 200, {"ran_out": True})
    assert [bar.holds for bar in promise.report([good]).bars] == [True, True, True]
    over = promised(0.5, [200] * 19 + [201], 200, {"ran_out": True})
    assert over.kept == (19, 20)
    assert [bar.holds for bar in promise.report([good, over]).bars] == [True, True, False]
    short = promised(0.5, [200] * 3, 200, run(290))
    assert [bar.holds for bar in promise.report([good, short]).bars] == [False, False, True]
    # A process that died after a few steps has written down how far it came.
    died = promise.PromiseRow(CASE, 0.5, 300 * MIB, 500 * MIB, {**good.planned, "crashed": "SIGSEGV"}, good.peers)
    assert [bar.holds for bar in promise.report([died]).bars] == [False, True, False]


def test_a_program_without_a_plan_breaks_the_bar_and_is_reported() -> None:
    row = promise.PromiseRow(CASE, 0.35, 300 * MIB, 500 * MIB, {"refused": "the smallest is 310 MiB"})
    section = promise.report([row])
    assert [bar.holds for bar in section.bars] == [False, False, False]
    assert section.notes == ["conv_chain, 35%, planned: the smallest is 310 MiB"]


def variables(weight: float, seed: int = 3) -> dict[str, object]:
    return {
        "weights/kernel": np.array([4.0, weight]),
        "averages/mean": np.array([1.0]),
        "seeds/state": np.array([seed, 7]),
        "optimizer/velocity": np.array([0.0]),
        "losses": np.array([[2.0], [1.0]]),
    }


def test_distances_are_shares_of_the_largest_element() -> None:
    assert exactness.distances(variables(1.0), variables(1.0)) == dict.fromkeys(exactness.KINDS, 0.0)
    assert exactness.distances(variables(1.0), variables(1.5))["weights"] == pytest.approx(0.125)
    assert exactness.widest([variables(1.0), variables(1.1), variables(1.5)])["weights"] == pytest.approx(0.125)
    assert exactness.nearest(variables(1.4), [variables(1.0), variables(1.5)])["weights"] == pytest.approx(0.025)
    assert exactness.distances(variables(1.0), variables(float("nan")))["weights"] == float("inf")


def exactness_row(spread: float, apart: float, seeds: float = 0.0) -> exactness.ExactnessRow:
    zero = dict.fromkeys(exactness.KINDS, 0.0)
    way = {"distances": {**zero, "weights": apart, "seeds": seeds}}
    return exactness.ExactnessRow(CASE, {**zero, "weights": spread}, {PLANNED: way})


def test_a_way_agrees_within_the_plain_spread_but_never_with_other_seeds() -> None:
    assert exactness_row(0.0, 0.0).agrees(PLANNED) is True
    assert exactness_row(0.0, 1e-9).agrees(PLANNED) is False
    assert exactness_row(0.01, 0.005).agrees(PLANNED) is True
    assert exactness_row(0.01, 0.005, seeds=0.1).agrees(PLANNED) is False
    assert exactness_row(0.01, 0.005).agrees("blocks") is None
    assert exactness_row(0.0, 0.0).is_repeatable
    assert not exactness_row(0.01, 0.0).is_repeatable


def test_a_gradient_is_right_if_its_length_is_the_slope_of_the_loss() -> None:
    assert exactness.slope_error({"length": 2.0, "slopes": {"0.1": 2.1, "0.3": 3.0}}) == pytest.approx(0.05)
    assert exactness.slope_error({"failed": "no"}) is None


def race(**lanes: tuple[float, int]) -> cost.CostRow:
    """Seconds and MiB of activations by lane."""
    budgets = {share: round(100 * share) for share in COST_SHARES}
    names = {"half": f"{PLANNED}={budgets[0.5]}", "third": f"{PLANNED}={budgets[0.3]}"}
    seen = {
        names.get(lane, lane): {
            "seconds": [second] * 3, "peaks": [(50 + size) * MIB] * 3, "before": [50 * MIB] * 3,
            "slowdown": 0.1, "recomputed_twice": 0,
        }
        for lane, (second, size) in lanes.items()
    }  # fmt: skip
    return cost.CostRow(CASE, budgets, cost.Race({"lanes": seen, "without": {}}))


def test_the_cost_is_time_on_top_for_activations_less() -> None:
    row = race(plain=(1.0, 100), half=(1.08, 45), third=(1.2, 30), forward=(0.4, 80))
    half = row.planned(0.5)
    assert row.race.slowdown(half) == pytest.approx(0.08)
    assert row.race.reduction(half) == pytest.approx(0.55)
    assert row.race.passes(half) == pytest.approx(0.2)
    assert [bar.holds for bar in cost.report([row]).bars] == [True, False, True]
    assert [bar.holds for bar in cost.report([race(plain=(1.0, 100), forward=(0.4, 80))]).bars] == [False] * 3


def test_peers_are_held_against_the_plain_step_of_their_own_race() -> None:
    peers = race(plain=(2.0, 100), blocks=(2.6, 60)).race
    row = cost.CostRow(CASE, {}, race(plain=(1.0, 100)).race, peers)
    (cells,) = cost.report([row]).cells
    assert cells[-4:] == ["40%", "+30.0%", "n/a", "n/a"]
    failed = cost.CostRow(CASE, {}, cost.Race({"failed": "no answer"}), cost.Race({"without": {"blocks": "raises"}}))
    assert cost.report([failed]).notes == ["conv_chain, race: no answer", "conv_chain, blocks: raises"]


def test_order_alone_is_even_low_and_quick() -> None:
    timed = race(plain=(1.0, 100), order=(1.02, 90))
    plain = run(*[500] * 10, *[510, 520])
    even = ordering.OrderRow(CASE, plain, run(*[480] * 12), timed)
    assert [bar.holds for bar in ordering.report([even]).bars] == [True, True, True]
    uneven = ordering.OrderRow(CASE, plain, run(*[480] * 8, *[520] * 4), None)
    assert uneven.above_plain == pytest.approx(0.04)
    assert [bar.holds for bar in ordering.report([even, uneven]).bars] == [False, False, False]


def test_a_larger_batch_counts_once_it_was_trained() -> None:
    case = find("vgg19")
    search, twice = {"largest": 2 * case.batch_size}, 2 * case.batch_size
    row = batches.BatchRow(case, 300 * MIB, search, {twice: run(290)})
    assert [bar.holds for bar in batches.report([row]).bars] == [True]
    row = batches.BatchRow(case, 300 * MIB, search, {twice: {"ran_out": True}, case.batch_size: run(290)})
    assert row.largest == case.batch_size
    assert [bar.holds for bar in batches.report([row]).bars] == [False]
    assert batches.meet(10, 100, 20, 150, 175) == 25


def test_the_report_has_bars_tables_and_notes() -> None:
    planning = speed.PLANNINGS[0]
    rows = [
        speed.SpeedRow(planning, {"plan_seconds": 9.0, "traced_nodes": 14481, "executed_nodes": 9839}),
        speed.SpeedRow(planning, {"failed": "no"}),
    ]
    text = report.to_markdown([speed.report(rows)], {"cores": "2"}, ["mlp cost"])
    assert "Measured with an earlier version of the source: mlp cost." in text
    assert "| planning ResNet50's step takes at most 10 s | 9.0 s | yes |" in text
    assert "| planning ResNet50's step takes at most 10 s | no answer | **no** |" in text
    assert "| ResNet50, batch 8, Adam | 14,481 | 9,839 |" in text
    assert "- ResNet50: no" in text
