"""Tides and plans in the page of `lowtide view`, and the way from a tensor to its node and back."""

import numpy as np
import pytest

from lowtide.tide.kinds import KINDS, SLACK
from lowtide.units import format_bytes
from tests.browser.viewer import ENTER, LEFT, RIGHT
from tests.conftest import TINY_CURVE, WIDER_CURVE, make_recorded_tide
from tests.plans import ACTIONS, make_plan

pytestmark = pytest.mark.browser

TENSOR_TABLE, ACTION_TABLE = "table[aria-label='Tensors that are alive']", "table[aria-label='What is done']"
TENSORS, DONE = f"{TENSOR_TABLE} tbody tr", f"{ACTION_TABLE} tbody tr"
FRONTIER = "table[aria-label='What other budgets cost'] tbody tr"


@pytest.fixture
def tide_page(look, site):
    """The recorded tide of the training step."""

    def show(query: str = ""):
        viewer = look(site, f"#tide/3{query}")
        viewer.wait(lambda: viewer.rows(TENSORS), "no tensor was listed")
        return viewer

    return show


@pytest.fixture
def plan_page(look, site):
    viewer = look(site, "#plan/5")
    viewer.wait(lambda: viewer.rows(DONE), "no action was listed")
    return viewer


def alive_at(event: int) -> list[tuple[str, str]]:
    """What the tide holds after an event: names and sizes, the largest first."""
    buffers = make_recorded_tide().buffers
    (rows,) = np.nonzero((buffers.born <= event) & (event < buffers.died))
    sizes = sorted(rows, key=lambda row: -int(buffers.allocated[row]))
    return [(buffers.name[row], format_bytes(int(buffers.allocated[row]))) for row in sizes]


def listed(viewer) -> list[tuple[str, str]]:
    return [(row[2], row[4]) for row in viewer.rows(TENSORS)]


def test_a_tide_shows_its_curve_and_the_peak(tide_page):
    viewer = tide_page()
    answers = viewer.text(".answers")
    for words in ("8.5 KiB", "9 KiB", "gradient of dense (MatMul)"):
        assert words in answers
    # One area for each kind of memory that the step holds, and one for what the allocator gave beyond that.
    areas = {KINDS[kind] for kind in make_recorded_tide().buffers.kind} | {SLACK}
    assert len(viewer.find_all(".chart.curve .ground polygon")) == len(areas)
    assert set(viewer.texts(".key > span")) == areas
    assert "peak 8.5 KiB" in viewer.find(".chart.curve").get_attribute("aria-label")
    assert viewer.text("h2.moment") == "At the peak: gradient of dense (MatMul)"
    assert sorted(listed(viewer)) == sorted(alive_at(4))


def test_the_keyboard_chooses_a_moment(tide_page):
    viewer = tide_page()
    chart = viewer.find(".chart.curve")
    chart.send_keys(LEFT, ENTER)
    viewer.wait_for_text("h2.moment", "after event 3")
    assert format_bytes(TINY_CURVE[3]) in viewer.text("h2.moment")
    assert sorted(listed(viewer)) == sorted(alive_at(3))
    chart.send_keys(RIGHT, RIGHT, ENTER)
    viewer.wait_for_text("h2.moment", "after event 5")
    assert sorted(listed(viewer)) == sorted(alive_at(5))
    assert "at=5" in viewer.hash
    spoken = viewer.run("return document.querySelector('.chart.curve').nextElementSibling.textContent")
    assert spoken.startswith(f"{format_bytes(TINY_CURVE[5])} after event 5, gradient_tape/MatMul")
    viewer.press("Back to the peak")
    viewer.wait_for_text("h2.moment", "At the peak")


def test_tensors_are_filtered_and_sorted(tide_page):
    viewer = tide_page()
    viewer.find("input[type=search]").send_keys("dense matmul")
    viewer.wait(lambda: [name for name, _ in listed(viewer)] == ["gradient_tape/MatMul:0"])
    assert "filter=dense%20matmul" in viewer.hash


def test_other_tides_and_plans_are_drawn_over_the_curve(tide_page):
    viewer = tide_page()
    viewer.press("Compare")
    viewer.wait(lambda: len(viewer.find_all(".choices input")) == 3)
    labels = [label.split("\n")[0] for label in (each.text for each in viewer.find_all(".choices label"))]
    assert labels == ["e_wider.tide", "f_step.plan, before", "f_step.plan, after"]
    viewer.find_all(".choices input")[0].click()
    gap = 100 * (max(WIDER_CURVE) / max(TINY_CURVE) - 1)
    viewer.wait_for_text(".key", f"e_wider.tide: peak {format_bytes(max(WIDER_CURVE))}, {gap:.1f}% above")
    assert "over=4" in viewer.hash
    viewer.find(".chart.curve").send_keys(LEFT)
    said = viewer.text(".chart.curve .tooltip")
    # Both steps have as many events.
    assert format_bytes(TINY_CURVE[3]) in said
    assert format_bytes(WIDER_CURVE[3]) in said


def test_the_address_space_of_a_recorded_tide(tide_page):
    viewer = tide_page()
    chart = viewer.find(".chart.space")
    assert "9 KiB" in chart.get_attribute("aria-label")
    chart.send_keys("\ue013")  # up: from the lowest address on
    spoken = "return document.querySelector('.chart.space').nextElementSibling.textContent"
    viewer.wait(lambda: viewer.run(spoken).startswith("dense/Relu:0, activations"))


def test_from_a_tensor_to_its_node_and_back(tide_page):
    viewer = tide_page("?at=2")
    viewer.press("dense/Relu:0", TENSOR_TABLE)
    viewer.wait_for_text(".selected", "alive from event 1 to 5")
    viewer.press("Show in graph")
    # Two files hold the layer, one of them thrice.
    viewer.wait_for_text(".graph-choice", "In which graph?")
    viewer.press("a_train_step.pb", ".graph-choice")
    viewer.wait(lambda: viewer.run("return window.lowtide?.state().selected") == "dense/Relu")
    assert "tide=3" in viewer.hash
    assert {"dense", "dense/Relu", "dense/MatMul"} <= viewer.keys()
    said = viewer.wait_for_text(".details", "IN THE TIDE")
    assert "activations · events 1 to 5 · at the peak" in said
    viewer.click(".details a[title='dense/Relu:0']")
    viewer.wait(lambda: viewer.hash.startswith("#tide/3"))
    viewer.wait_for_text(".selected", "dense/Relu:0")
    assert viewer.texts("tr.chosen .column-tensor") == ["dense/Relu:0"]


def test_a_tensor_that_is_in_no_graph(tide_page):
    viewer = tide_page("?tensor=missing:0")
    viewer.wait_for_text(".selected", "not among the buffers")
    viewer.press("Show in graph")
    viewer.wait_for_text(".graph-choice", "None of the 5 graphs here holds it.")


# -- plans ----------------------------------------------------------------------------------------------


def test_a_plan_shows_before_and_after(plan_page):
    answers = plan_page.text(".answers")
    for words in ("16 KiB", "9 KiB", "+14%"):
        assert words in answers
    plan = make_plan()
    peaks = [format_bytes(each.peak_bytes) for each in (plan.before, plan.after)]
    assert plan_page.texts(".key > span") == [f"before: peak {peaks[0]}", f"after: peak {peaks[1]}"]
    plan_page.find(".chart.curves").send_keys(RIGHT)
    # The first key reads the peak of the step as planned.
    said = plan_page.text(".chart.curves .tooltip")
    assert format_bytes(TINY_CURVE[4]) in said
    assert format_bytes(WIDER_CURVE[4]) in said


def test_the_actions_of_a_plan_lead_to_the_graph(plan_page):
    rows = plan_page.rows(DONE)
    assert [(row[3], row[4]) for row in rows] == [
        (action.subject, format_bytes(action.saves_bytes))
        for action in sorted(ACTIONS, key=lambda action: -action.saves_bytes)
    ]
    plan_page.press("gradient_tape/MatMul", ACTION_TABLE)
    plan_page.wait_for_text(".selected", "frees the largest tensor sooner")
    plan_page.press("Show in graph")
    plan_page.press("b_wider_step.pb", ".graph-choice")
    plan_page.wait(lambda: plan_page.run("return window.lowtide?.state().selected") == "gradient_tape/MatMul")
    assert plan_page.hash.startswith("#graph/1.0?")


def test_the_frontier_of_a_plan(plan_page):
    rows = [row[:2] for row in plan_page.rows(FRONTIER)]
    # What another budget beats in both is left out; the plan itself and the step as it is are in.
    assert [format_bytes(12288), "+0%"] in rows or [format_bytes(12288), "0%"] in rows
    assert [format_bytes(7168), "+31%"] in rows
    assert format_bytes(11000) not in [row[0] for row in rows]
    chart = plan_page.find(".chart.frontier")
    chart.send_keys(RIGHT, LEFT)
    assert "recomputed" in plan_page.text(".chart.frontier .tooltip")
    assert "the smallest that was found" in chart.get_attribute("aria-label")
