"""The file that `--html` writes of a plan, in a real browser."""

import pytest

from lowtide.planning.plan import ORDER, Action, FrontierPoint
from tests.browser.viewer import ESCAPE, LEFT, RIGHT
from tests.pages import plan_page
from tests.plans import make_changing_plan, make_idle_plan, make_plan

pytestmark = pytest.mark.browser

FOUND, USAGE = "[aria-label='How this was found']", "[aria-label='How to use it']"


@pytest.fixture
def open_plan(open_html):
    return lambda plan: open_html(plan_page(plan))


def text(browser, selector: str) -> str:
    return browser.find_element("css selector", selector).text


def listed(browser, column: int) -> list[str]:
    script = "return [...document.querySelectorAll('.listing tbody tr')].map(r => r.cells[{}].textContent)"
    return browser.execute_script(script.format(column))


def point_to(browser, name: str, share: float) -> None:
    """Move the pointer over a chart, to a share of the width of what is drawn in it."""
    from selenium.webdriver import ActionChains

    x, half = browser.execute_script(
        """
        const chart = document.querySelector(`.chart.${arguments[0]}`);
        chart.scrollIntoView({ block: "center", behavior: "instant" });
        const [left, right] = [...chart.querySelector("[data-name=grid]").points].map((point) => point.x);
        return [left + (right - left) * arguments[1], chart.clientWidth / 2];
        """,
        name,
        share,
    )
    chart = browser.find_element("css selector", f".chart.{name}")
    ActionChains(browser).move_to_element_with_offset(chart, round(x - half), 20).perform()


def test_it_shows_the_answer(open_plan, plan):
    browser = open_plan(plan)
    assert browser.title == "train.py:build · batch 5 · lowtide"
    answers = text(browser, ".answers")
    for part in ("16 KiB", "9 KiB", "fits in 10 KiB, with 1 KiB to spare", "+14%", "Unchanged"):
        assert part in answers
    found = text(browser, USAGE) + text(browser, FOUND)
    for part in (
        'lt.fit_in(model, budget="10KiB")',
        'lt.load_plan("a.plan", step, *specs).apply()',
        "times are estimates",
    ):
        assert part in found


def test_both_curves_are_drawn_with_the_budget_between_their_peaks(open_plan, plan):
    browser = open_plan(plan)
    before, budget, after = browser.execute_script(
        """
        const highest = (name) => Math.min(...[...document.querySelector(
          `.chart.curves polyline[data-name=${name}]`).points].map((point) => point.y));
        return [highest("before"), highest("budget"), highest("after")];
        """
    )
    assert before < budget < after
    assert text(browser, ".chart.curves").splitlines()[-2:] == ["before 13.8 KiB", "after 8.5 KiB"]


def test_pointing_reads_both_steps_at_a_moment(open_plan, plan):
    browser = open_plan(plan)
    assert not browser.find_element("css selector", ".chart.curves .tooltip").is_displayed()
    point_to(browser, "curves", 2 / 3)
    tooltip = text(browser, ".chart.curves .tooltip")
    for part in ("67% of the step", "before\n13.8 KiB", "after\n8.5 KiB", "gradient_tape/MatMul"):
        assert part in tooltip


def test_the_keyboard_reads_the_step_aloud(open_plan, plan):
    browser = open_plan(plan)
    chart = browser.find_element("css selector", ".chart.curves")
    assert "budget 10 KiB" in chart.get_attribute("aria-label")
    spoken = "return document.querySelector('.chart.curves').nextElementSibling.textContent"
    chart.send_keys(RIGHT)
    assert browser.execute_script(spoken) == "67% of the step, before 13.8 KiB, after 8.5 KiB"
    chart.send_keys(LEFT)
    assert browser.execute_script(spoken).startswith("66% of the step")
    chart.send_keys(ESCAPE)
    assert not browser.find_element("css selector", ".chart.curves .tooltip").is_displayed()


def test_the_frontier_is_read_with_the_pointer_and_the_keyboard(open_plan, plan):
    browser = open_plan(plan)
    # The axis ends 8% beyond the plain step.
    point_to(browser, "frontier", 7168 / (16384 * 1.08))
    assert text(browser, ".chart.frontier .tooltip") == "7 KiB, +31% time\n4 recomputed · smallest"
    chart = browser.find_element("css selector", ".chart.frontier")
    assert "the smallest that was found is 7 KiB at +31% time, 4 recomputed" in chart.get_attribute("aria-label")
    chart.send_keys(ESCAPE)
    spoken = "return document.querySelector('.chart.frontier').nextElementSibling.textContent"
    announced = []
    for key in (RIGHT, RIGHT, LEFT, LEFT, LEFT):
        chart.send_keys(key)
        announced.append(browser.execute_script(spoken))
    assert announced == [
        "9 KiB at +14% time, 2 recomputed, this plan",
        "9.77 KiB at +8% time, 1 recomputed",
        "9 KiB at +14% time, 2 recomputed, this plan",
        "7 KiB at +31% time, 4 recomputed, smallest",
        "7 KiB at +31% time, 4 recomputed, smallest",
    ]
    assert text(browser, "tr.chosen") == "9 KiB +14% 2 this plan"


def test_names_in_the_frontier_do_not_overlap(open_plan, plan):
    names = "return [...document.querySelectorAll('.frontier [data-name=name]')].map((label) => label.textContent)"
    assert sorted(open_plan(plan).execute_script(names)) == ["as it is", "smallest", "this plan"]
    near = make_plan(frontier=(FrontierPoint(12288, 0.05, 1), FrontierPoint(9200, 0.143, 2)))
    assert sorted(open_plan(near).execute_script(names)) == ["as it is", "this plan"]


def test_actions_are_sorted_with_the_keyboard_and_filtered(open_plan, plan):
    browser = open_plan(plan)
    assert listed(browser, 4) == ["7.81 KiB", "100 B", "0 B"]
    saves, layer = (browser.find_elements("css selector", ".listing th button")[column] for column in (4, 1))
    saves.send_keys("\ue007")  # enter
    assert listed(browser, 4) == ["0 B", "100 B", "7.81 KiB"]
    head = browser.find_elements("css selector", ".listing th")
    assert [each.get_attribute("aria-sort") for each in head][4] == "ascending"
    layer.click()
    assert listed(browser, 1) == ["dense", "dense", "norm"]
    browser.find_element("css selector", "input[type=search]").send_keys("norm mul")
    assert listed(browser, 3) == ["norm/mul"]


def test_a_long_list_is_cut_short_until_asked(open_plan):
    actions = tuple(Action(ORDER, f"node{i:03}", "Relu", "dense", 200 - i, 0.0, "") for i in range(130))
    browser = open_plan(make_plan(actions=actions))
    assert listed(browser, 3) == [f"node{i:03}" for i in range(100)]
    more = browser.find_element("css selector", ".more button")
    assert more.text == "Show 30 more"
    more.click()
    assert len(listed(browser, 3)) == 130
    assert not more.is_displayed()


def test_a_step_that_fits_shows_one_curve_and_nothing_to_do(open_plan):
    browser = open_plan(make_idle_plan())
    assert "fits in 10 KiB" in text(browser, ".answers")
    assert len(browser.find_elements("css selector", ".chart.curves .ground polygon")) == 1
    for absent in (".chart.frontier", ".listing"):
        assert browser.find_elements("css selector", absent) == []


def test_changes_of_results_are_stated(open_plan):
    browser = open_plan(make_changing_plan())
    assert "Changed" in text(browser, ".answers")
    assert 'allow=("microbatch", "bfloat16")' in text(browser, USAGE)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_it_fits_the_window_in_light_and_dark(open_plan, window, width, dark):
    from selenium.webdriver.support.ui import WebDriverWait

    points = tuple(FrontierPoint(16000 - 100 * i, 0.01 * i, i) for i in range(80))
    window(width, dark=dark)
    browser = open_plan(make_plan(frontier=points))
    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(overflow) == 0
    assert browser.execute_script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
    for name in ("curves", "frontier"):
        browser.find_element("css selector", f".chart.{name}").send_keys(RIGHT)
        box = "const b = document.querySelector('.chart.{} .tooltip').getBoundingClientRect(); return [b.left, b.right]"
        left, right = browser.execute_script(box.format(name))
        assert 0 <= left < right <= width
        # It is drawn anew in the frame after the chart changed its width, say because a scroll bar came.
        chart = f"document.querySelector('.chart.{name}')"
        drawn = f"return {chart}.querySelector('svg').viewBox.baseVal.width == {chart}.clientWidth"
        WebDriverWait(browser, 10).until(lambda browser, drawn=drawn: browser.execute_script(drawn))
    shade = "return getComputedStyle(document.body).backgroundColor"
    first = browser.execute_script(shade)
    browser.find_element("css selector", "[aria-label='Light or dark']").click()
    assert browser.execute_script(shade) != first
