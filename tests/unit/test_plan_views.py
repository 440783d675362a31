"""A plan in the terminal, as a picture and as a page, as text."""

import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from rich.console import Console

from lowtide.planning.plan import ORDER, RECOMPUTE, Action, FrontierPoint, NoPlanError
from lowtide.view.axis import AFTER_COLOUR, BEFORE_COLOUR
from lowtide.view.pictures.plan_svg import render_plan_picture
from lowtide.view.reports.frontier import Frontier, point_text, thin
from lowtide.view.reports.plan import PlanReport, Total, format_time
from lowtide.view.terminal.plan import TerminalNoPlan, TerminalPlan
from tests.pages import check_self_contained, plan_page, read_data
from tests.plans import FRONTIER, make_changing_plan, make_idle_plan, make_plan

SVG = "{http://www.w3.org/2000/svg}"

REPORT = """
  16 KiB -> 9 KiB, +14% time: 2 tensors recomputed, 1 operation reordered;
  results unchanged
  train.py:build · batch 5
  peak 13.8 KiB -> 8.5 KiB, safe bound 16 KiB -> 9 KiB
  ✓ fits in 10 KiB, with 1 KiB to spare

       │                                         ▼ before 13.8 KiB
       │                                         ░░░░░░░░░░
12 KiB ┤           ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
       │           ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
       │━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ budget 10 KiB
       │           ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░▼ after 8.5 KiB
 8 KiB ┤           ▁▁▁▁▁▁▁▁▁▁▄▄▄▄▄▄▄▄▄▄▁▁▁▁▁▁▁▁▁▁██████████
       │           ████████████████████████████████████████
       │           ████████████████████████████████████████
       │           ████████████████████████████████████████▂▂▂▂▂▂▂▂▂▂
 4 KiB ┤▂▂▂▂▂▂▂▂▂▂▂██████████████████████████████████████████████████▂▂▂▂▂▂▂▂▂▂
       │███████████████████████████████████████████████████████████████████████
       │███████████████████████████████████████████████████████████████████████
   0 B ┤███████████████████████████████████████████████████████████████████████
       └─────────────────────────────────────────────── full step, start to end
  ░ before   █ after

  what       layer  op       saves    costs
  recompute  dense  Relu  7.81 KiB  1.25 ms
  recompute  norm   Mul      100 B   3.5 µs
  and 1 more

  what other budgets cost   ┃ budget 10 KiB   ◆ this plan
    memory  time  recomputed
    16 KiB   +0%           0  as it is
    12 KiB   +0%           0
  9.77 KiB   +8%           1
     9 KiB  +14%           2  this plan
     7 KiB  +31%           4  smallest

  +34% ┤                            ▂▂▂▂▂▂▂▂    ┃
       │                            ████████    ┃
       │                            ████████    ┃
       │                            ████████    ┃
       │                            ████████◆▃▃ ┃
       │                            ███████████ ┃
       │                            ███████████▇┃▇▇▇▇▇▇▇
   +0% ┤                            ████████████┃███████
       └──────────────────────────────────────────────────────────────────────
        0               4 KiB           8 KiB           12 KiB          16 KiB

  to use it  lt.fit_in(model, budget="10KiB")  then model.fit(...) as always
             @lt.function(budget="10KiB")  for your own step
             lt.load_plan("a.plan", step, *specs).apply()  without a search
  results    unchanged: the same operations on the same numbers, some of them
             twice
  note       times are estimates
  note       random weights

"""


def printed(shown: object, width: int = 80, *, colour: bool = False) -> str:
    system = "truecolor" if colour else None
    console = Console(file=io.StringIO(), width=width, color_system=system, force_terminal=colour, legacy_windows=False)
    console.print(shown)
    return console.file.getvalue()


def words(shown: object, width: int = 80) -> str:
    return " ".join(printed(shown, width).split())


def test_the_report_in_the_terminal(plan):
    text = printed(TerminalPlan(PlanReport(plan, top=2, file="a.plan")))
    assert "\n".join(line.rstrip() for line in text.splitlines()) + "\n" == REPORT


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_exceeds_the_terminal(plan, width):
    long = "encoder/block_1/self_attention/multi_head_attention/query_projection_dense"
    action = Action(RECOMPUTE, f"{long}/MatMul/ReadVariableOp", "FusedBatchNormGradV3", long, 123456789, 38200.0, "")
    error = NoPlanError("no plan reaches the budget", 5000, 7168, FRONTIER, ("microbatch",))
    for shown in (
        TerminalPlan(PlanReport(plan, file="a.plan")),
        TerminalPlan(PlanReport(make_plan(actions=(*plan.actions, action)))),
        TerminalPlan(PlanReport(make_changing_plan())),
        TerminalPlan(PlanReport(make_idle_plan())),
        TerminalNoPlan(error, "train.py:build"),
    ):
        assert max(len(line) for line in printed(shown, width).splitlines()) <= width


def test_numbers_are_never_cut_and_long_names_keep_both_ends(plan):
    long = "encoder/block_1/self_attention/multi_head_attention/query_projection_dense"
    action = Action(RECOMPUTE, "node", "FusedBatchNormGradV3", long, 123456789, 38200.0, "")
    text = printed(TerminalPlan(PlanReport(make_plan(actions=(action,)))))
    assert re.search(r"recompute  encoder\S*…\S*_dense  \S+  117\.7 MiB  38\.2 ms", text)


def test_a_wide_terminal_also_names_the_nodes(plan):
    assert "gradient_tape/MatMul" in printed(TerminalPlan(PlanReport(plan)), 140)
    assert "gradient_tape/MatMul" not in printed(TerminalPlan(PlanReport(plan)), 80)


def test_a_change_of_results_is_named_with_the_option_that_allows_it():
    text = words(TerminalPlan(PlanReport(make_changing_plan())))
    assert 'lt.fit_in(model, budget="10KiB", allow=("microbatch", "bfloat16"))' in text
    assert "computed in 4 micro-batches" in text
    assert "layers compute in mixed_bfloat16" in text
    assert "split (no layer) the batch 4 KiB 20 µs" in text
    one = PlanReport(make_plan(precision="mixed_float16")).usage
    assert one[1] == ('@lt.function(budget="10KiB", allow=("float16",))', "for your own step")


def test_an_order_alone_computes_nothing_twice(plan):
    ordered = replace(plan, actions=tuple(action for action in plan.actions if action.kind == ORDER))
    assert PlanReport(ordered).results_line == "unchanged: the same operations on the same numbers"


def test_a_budget_is_written_so_that_it_is_the_same_budget():
    assert PlanReport(make_plan(budget_bytes=3 << 30)).usage[1][0] == '@lt.function(budget="3GiB")'
    assert PlanReport(make_plan(budget_bytes=(3 << 30) + 1)).usage[1][0] == "@lt.function(budget=3221225473)"


def test_a_step_that_fits_needs_nothing():
    text = words(TerminalPlan(PlanReport(make_idle_plan(), file="a.plan")))
    assert text.startswith("9 KiB fits 10 KiB as it is train.py:build · batch 5")
    assert "▼ peak 8.5 KiB" in text
    for absent in ("to use it", "what other budgets cost", "recompute", "before"):
        assert absent not in text


def test_where_no_plan_fits_the_terminal_says_how_low_it_goes():
    error = NoPlanError("no plan reaches the budget", 5000, 7168, FRONTIER, ("microbatch",))
    text = words(TerminalNoPlan(error, "train.py:build"))
    assert text.startswith(
        "✗ no plan reaches the budget (a budget of 4.88 KiB) train.py:build "
        "the smallest plan that was found takes 7 KiB; allow microbatch to try lower what other budgets cost"
    )
    assert "7 KiB +31% 4 smallest" in text
    assert "◆" not in text
    bare = words(TerminalNoPlan(NoPlanError("no plan reaches the budget", 5000, 7168), "train.py:build"))
    assert "smaller batch" in bare
    assert "what other budgets cost" not in bare


def test_the_curves_have_their_colours(plan):
    text = printed(TerminalPlan(PlanReport(plan)), colour=True)
    for colour in (BEFORE_COLOUR, AFTER_COLOUR):
        red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
        assert f"38;2;{red};{green};{blue}m" in text
    assert "\x1b[" not in printed(TerminalPlan(PlanReport(plan)))


def test_a_budget_outside_of_the_axis_is_not_drawn(plan):
    far = make_plan(budget_bytes=1 << 40)
    assert "━" not in printed(TerminalPlan(PlanReport(far)))
    assert 'class="budget"' not in render_plan_picture(PlanReport(far))
    assert 'class="budget"' in render_plan_picture(PlanReport(plan))


# -- what the views rest on ----------------------------------------------------------------------


def test_actions_are_listed_by_what_they_save(plan):
    report = PlanReport(plan, top=1)
    assert [action.subject for action in report.actions] == ["dense/Relu", "norm/mul", "gradient_tape/MatMul"]
    assert report.rest == Total(2, 100, 3.5)
    assert report.by_layer() == [("dense", Total(2, 8000, 1250.0)), ("norm", Total(1, 100, 3.5))]
    assert PlanReport(make_idle_plan()).by_layer() == []


@pytest.mark.parametrize(
    ("actions", "line"),
    [
        ((100, 3.5), "and 1 more that save 100 B and cost 3.5 µs"),
        ((0, 3.5), "and 1 more that cost 3.5 µs"),
        ((100, 0.0), "and 1 more that save 100 B"),
    ],
)
def test_the_rest_is_added_up(actions, line):
    first = Action(RECOMPUTE, "a", "Relu", "dense", 8000, 1.0, "")
    second = Action(ORDER, "b", "Relu", "dense", *actions, "")
    assert line in words(TerminalPlan(PlanReport(make_plan(actions=(first, second)), top=1)))


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "0"), (0.4, "0"), (3.5, "3.5 µs"), (950, "950 µs"), (999.9, "1 ms"), (38200, "38.2 ms"), (123456, "123 ms")]
    + [(1234567, "1.23 s"), (7.2e9, "7,200 s")],
)
def test_durations_in_words(microseconds, text):
    assert format_time(microseconds) == text


def test_a_frontier_keeps_what_nothing_beats(plan):
    frontier = Frontier.of(plan)
    assert [(point.peak_bytes, point.slowdown) for point in frontier.points] == [
        (12288, 0.0),
        (10000, 0.08),
        (9216, 0.142),
        (7168, 0.31),
    ]
    assert [frontier.slowdown_at(size) for size in (20000, 12288, 12287, 9216, 7168, 7167)] == [
        0.0,
        0.0,
        0.08,
        0.142,
        0.31,
        None,
    ]
    assert [frontier.name_of(point) for point in frontier.rows(10)] == ["as it is", "", "", "this plan", "smallest"]
    assert frontier.worth_showing
    assert not Frontier.of(make_idle_plan()).worth_showing
    assert not Frontier((), 100).worth_showing


def test_points_that_were_not_simulated_are_called_estimates(plan):
    estimated = replace(plan, frontier=tuple(replace(point, is_estimate=True) for point in FRONTIER))
    frontier = Frontier.of(estimated)
    described = [frontier.describe(point) for point in frontier.rows(10)]
    assert described == ["as it is", "estimate", "estimate", "this plan", "smallest, estimate"]
    assert "smallest, estimate" in words(TerminalPlan(PlanReport(estimated)))
    assert [point["note"] for point in read_data(plan_page(estimated))["frontier"]["points"]] == described


def test_a_long_frontier_is_thinned_evenly_and_keeps_its_ends():
    points = [FrontierPoint(size, 1 / size, 0) for size in range(1000, 0, -1)]
    some = thin(points, 5)
    assert [point.peak_bytes for point in some] == [1000, 750, 501, 251, 1]
    assert (some[0], some[-1]) == (points[0], points[-1])
    assert thin(points[:3], 5) == points[:3]
    long = make_plan(frontier=tuple(points))
    assert len(Frontier.of(long).rows(8)) <= 10


def test_a_point_in_words():
    assert point_text(FrontierPoint(9216, 0.142, 38)) == "9 KiB at +14% time, 38 recomputed"
    assert point_text(FrontierPoint(9216, 0.0, 0)) == "9 KiB at +0% time"


# -- the picture and the page --------------------------------------------------------------------


def test_the_picture_has_both_curves_the_budget_and_the_peaks(plan):
    root = ElementTree.fromstring(render_plan_picture(PlanReport(plan)))
    lines = list(root.iter(f"{SVG}polyline"))
    assert [line.find(f"{SVG}title").text for line in lines] == ["before", "after"]
    assert [line.get("stroke") for line in lines] == [BEFORE_COLOUR, AFTER_COLOUR]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    for text in (
        "budget 10 KiB",
        "before: gradient of dense_3 (MatMul)",
        "after: gradient of dense (MatMul)",
        plan.summary(),
    ):
        assert text in texts
    (budget,) = [line for line in root.iter(f"{SVG}line") if line.get("class") == "budget"]
    highest = [min(float(point.split(",")[1]) for point in line.get("points").split()) for line in lines]
    assert highest[0] < float(budget.get("y1")) < highest[1]
    idle = ElementTree.fromstring(render_plan_picture(PlanReport(make_idle_plan())))
    assert len(list(idle.iter(f"{SVG}polyline"))) == 1


def test_the_page_is_the_plan(plan):
    data = read_data(plan_page(plan))
    assert [curve["bytes"] for curve in data["curves"]["curves"]] == [
        plan.before.curve.bytes_in_use.tolist(),
        plan.after.curve.bytes_in_use.tolist(),
    ]
    assert [(point["bytes"], point["name"]) for point in data["frontier"]["points"]] == [
        (16384, "as it is"),
        (12288, ""),
        (10000, ""),
        (9216, "this plan"),
        (7168, "smallest"),
    ]
    assert data["frontier"]["points"][3]["words"] == "9 KiB at +14% time, 2 recomputed, this plan"
    assert "fits in 10 KiB" in data["answers"][1]["reason"]
    assert data["answers"][3]["value"] == "Unchanged"
    assert data["actions"][0]["reason"] == "held until the backward pass"
    assert data["usage"][2]["code"].startswith('lt.load_plan("a.plan"')


def test_the_page_asks_the_network_for_nothing_and_names_are_harmless(plan):
    nasty = '</script><img src=x onerror="x">&'
    action = Action(RECOMPUTE, nasty, nasty, nasty, 1, 1.0, nasty)
    bad = replace(plan, target=nasty, actions=(action,), notes=(nasty,))
    check_self_contained(plan_page(bad, nasty))
    ElementTree.fromstring(render_plan_picture(PlanReport(bad)))


def test_a_page_of_many_actions_lists_those_that_save_most():
    actions = tuple(Action(ORDER, f"node{i}", "Relu", f"layer{i % 20}", i, 0.0, "") for i in range(6000))
    data = read_data(plan_page(make_plan(actions=actions)))
    assert [action["node"] for action in data["actions"]] == [f"node{i}" for i in range(5999, 999, -1)]
    assert data["total"]["actions"] == 6000
    assert len(data["layers"]) == 20
