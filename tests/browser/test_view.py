"""The page of `lowtide view` as a whole: how it is started, addresses, keyboard, widths, light and dark."""

import json
import signal
import subprocess
import sys

import pytest

from tests.browser.viewer import TAB, Viewer

pytestmark = pytest.mark.browser

VIEWS = ["#graph/0.0?open=dense;metrics&select=dense/MatMul", "#diff/0.0/1.0", "#tide/3", "#plan/5"]
COVERED = {"graph": "canvas.stage", "diff": "canvas.stage", "tide": ".chart.curve", "plan": ".chart.frontier"}


def wait_for_view(viewer: Viewer, view: str) -> None:
    kind = view[1:].partition("/")[0]
    viewer.wait(lambda: viewer.find(COVERED[kind]).is_displayed())
    if kind in ("graph", "diff"):
        viewer.wait(viewer.drawn)


# -- how it is started ----------------------------------------------------------------------------------


def test_the_command_line_prints_an_address_that_works(look, logs, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "lowtide", "view", str(logs), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            greeting = json.loads(process.stdout.readline())
            viewer = look(greeting["address"])
            viewer.wait(lambda: "a_train_step.pb" in viewer.texts(".entry .name"))
            assert viewer.browser.title == f"{logs} · lowtide"
        finally:
            # Not Ctrl-C: a shell that runs tests in the background ignores it, and its child processes inherit that.
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert process.returncode == 0


def test_the_policy_is_sent_and_nothing_breaks_it(look, site):
    # That nothing is against it is seen at the end of this and every test: the browser would have complained.
    viewer = look(site, VIEWS[0])
    wait_for_view(viewer, VIEWS[0])
    policy = viewer.browser.execute_async_script(
        "const done = arguments[0]; fetch('./').then((r) => done(r.headers.get('content-security-policy')))"
    )
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    for later in VIEWS[1:]:
        viewer.run("location.hash = arguments[0]", later)
        wait_for_view(viewer, later)


# -- addresses ------------------------------------------------------------------------------------------


def test_a_reload_shows_the_same(look, site):
    viewer = look(site, "#graph/0.0")
    viewer.select("metrics/loss_42")
    viewer.choose("select[aria-label='What colours say']", "Phase")
    viewer.wait(lambda: "colour=phase" in viewer.hash)
    before = (viewer.hash, viewer.keys(), viewer.selected, viewer.texts(".legend > span"))
    viewer.browser.refresh()
    viewer.wait(lambda: viewer.keys() == before[1])
    viewer.wait(lambda: viewer.selected == before[2])
    assert (viewer.hash, viewer.keys(), viewer.selected, viewer.texts(".legend > span")) == before


def test_the_link_that_is_copied_opens_the_same(look, site, browser):
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"]})
    viewer = look(site, "#graph/0.0")
    viewer.select("tower/block_2/MatMul")
    keys = viewer.keys()
    viewer.press("Copy link", ".details")
    viewer.wait_for_text(".details .actions", "Copied")
    link = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert link.startswith(f"{site}#graph/0.0?")
    browser.get("about:blank")
    browser.get(link)
    viewer.wait(lambda: viewer.keys() == keys)
    assert viewer.selected == "tower/block_2/MatMul"


def test_a_short_link_opens_what_is_around_its_node(look, site):
    viewer = look(site, "#graph/0.0?select=tower/block_3/scale")
    viewer.wait_for_keys("tower/block_3/scale")
    viewer.wait(lambda: viewer.selected == "tower/block_3/scale")


def test_the_back_button_goes_back(look, site):
    viewer = look(site, "#graph/0.0")
    viewer.wait(viewer.drawn)
    top = viewer.keys()
    viewer.point("tower", clicks=2)
    viewer.wait_for_keys("tower/block_1")
    viewer.run("location.hash = '#tide/3?at=2'")
    viewer.wait_for_text("h2.moment", "after event 2")
    viewer.browser.back()
    viewer.wait_for_keys("tower/block_1")
    viewer.browser.back()
    viewer.wait(lambda: viewer.keys() == top)
    viewer.browser.forward()
    viewer.wait_for_keys("tower/block_1")


def test_an_address_that_leads_nowhere_says_so(look, site, browser):
    viewer = look(site, "#graph/9.0")
    viewer.wait_for_text(".card.problem", "there is no such graph")
    # Chromium logs every answer that is an error.
    (logged,) = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert "404" in logged["message"]


# -- keyboard, screen readers, widths, light and dark -------------------------------------------------------


def test_the_outline_is_a_tree_with_labels(look, site):
    viewer = look(site, "#graph/0.0?open=dense")
    viewer.wait_for_keys("dense/MatMul")
    tree = viewer.find("[role=tree]")
    assert tree.get_attribute("aria-label")
    items = viewer.find_all("[role=tree] [role=treeitem]")
    assert {item.get_attribute("data-id") for item in items} == {box["id"] for box in viewer.drawn()}
    assert all(item.get_attribute("aria-label") for item in items)
    dense, inside = viewer.find("[data-id='dense']"), viewer.find("[data-id='dense/MatMul']")
    assert dense.get_attribute("aria-label") == "dense, scope, 4 nodes"
    assert (dense.get_attribute("aria-expanded"), dense.get_attribute("aria-level")) == ("true", "1")
    assert inside.get_attribute("aria-label") == "MatMul, MatMul, 5×10"
    assert (inside.get_attribute("aria-expanded"), inside.get_attribute("aria-level")) == (None, "2")
    canvas = viewer.find("canvas.stage")
    assert (canvas.aria_role, "outline" in canvas.get_attribute("aria-label")) == ("application", True)


def test_the_selection_is_announced(look, site):
    viewer = look(site, "#graph/0.0")
    viewer.wait(viewer.drawn)
    viewer.find("[data-id='tower'] .name").click()
    spoken = "return [...document.querySelectorAll('[aria-live=polite]')].map((each) => each.textContent)"
    viewer.wait(lambda: "tower, scope, 6 nodes" in viewer.run(spoken))
    viewer.keyboard("\ue014")  # right opens
    viewer.wait_for_keys("tower/block_1")
    viewer.keyboard("\ue014")  # and goes in
    viewer.wait(lambda: "block_1, scope, 2 nodes" in viewer.run(spoken))
    assert viewer.selected == "tower/block_1"


@pytest.mark.parametrize("view", VIEWS)
def test_everything_is_reached_by_tab(look, site, view):
    viewer = look(site, view)
    wait_for_view(viewer, view)
    if "select" in view:
        viewer.wait_for_text(".details", "ATTRIBUTES")
    controls = """
    window.controls = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
        .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled);
    window.reached = new Set();
    document.addEventListener('focusin', (event) => window.reached.add(event.target));
    return window.controls.length;
    """
    count = viewer.run(controls)
    assert count > 5
    viewer.find("body").send_keys(TAB)
    for _ in range(count + 5):
        viewer.keyboard(TAB)
    missed = viewer.run("return window.controls.filter((each) => !window.reached.has(each)).map((e) => e.outerHTML)")
    assert missed == []
    nameless = """
    const nameOf = (each) => each.textContent.trim() || each.ariaLabel || each.labels?.length || each.title;
    return window.controls.filter((each) => !nameOf(each)).map((each) => each.outerHTML)
    """
    assert viewer.run(nameless) == []


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)])
def test_it_fits_the_window(look, site, window, view, width, height):
    window(width, height=height)
    viewer = look(site, view)
    wait_for_view(viewer, view)
    assert viewer.overflow <= 0
    cut = """
    return [...document.querySelectorAll('header *, .tools *, .answers *, h1, h2')]
        .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest('.unseen, svg, select'))
        .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 || each.getBoundingClientRect().left < -1)
        .map((each) => each.outerHTML)
    """
    assert viewer.run(cut) == []


def test_panels_can_be_used_in_a_narrow_window(look, site, window):
    window(390, height=844)
    viewer = look(site, "#graph/0.0")
    viewer.wait(viewer.drawn)
    assert not viewer.find("form.search").is_displayed() or viewer.find(".side").rect["x"] < 0
    viewer.click("button[aria-label='Outline and search']")
    viewer.wait(lambda: viewer.find(".side").rect["x"] == 0)
    viewer.find("form.search > input").send_keys("relu")
    viewer.wait(lambda: viewer.find(".results button[title='dense/Relu']"))
    viewer.click(".results button[title='dense/Relu']")
    viewer.wait(lambda: viewer.selected == "dense/Relu")
    viewer.wait_for_text(".details", "INPUTS")
    viewer.wait(lambda: viewer.find(".side.right").rect["y"] < 844)
    details = viewer.find(".side.right").rect
    viewer.wait(lambda: viewer.find(".side").rect["x"] < 0)
    # What the details are about is in sight, above them.
    (box,) = (each for each in viewer.drawn() if each["key"] == "dense/Relu")
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= details["y"]
    assert viewer.overflow <= 0
    viewer.click(".details .close")
    viewer.wait(lambda: viewer.selected is None)


@pytest.mark.parametrize("view", VIEWS)
def test_light_and_dark(look, site, window, view):
    window(1280, height=800, dark=True)
    viewer = look(site, view)
    wait_for_view(viewer, view)
    shade = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    dark = viewer.run(shade)
    assert dark[0] == "dark"
    viewer.click("button[aria-label='Light or dark']")
    light = viewer.wait(lambda: (now := viewer.run(shade))[0] == "light" and now)
    assert light[1] != dark[1]
    # The choice outlives the page.
    viewer.browser.refresh()
    wait_for_view(viewer, view)
    assert viewer.run(shade) == light
    viewer.run("localStorage.clear()")


def test_the_help_lists_the_keys(look, site):
    viewer = look(site, "#graph/0.0")
    viewer.wait(viewer.drawn)
    viewer.find("canvas.stage").send_keys("?")
    viewer.wait_for_text("dialog.help", "open or close the selected box")
    viewer.keyboard("\ue00c")
    viewer.wait(lambda: not viewer.find_all("dialog.help"))
