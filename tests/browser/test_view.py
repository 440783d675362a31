"""The page of `lowtide view` as a whole: addresses, keyboard, widths, names of any kind, and files that are damaged."""

import json
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.browser.programs import CALLED, DENSE, TRAIN_STEP, flat_nodes
from tests.browser.viewer import ENTER, TAB, Viewer
from tests.conftest import make_tide
from tests.unit.graph_bytes import FLOAT, attribute, function, shape, typed
from tests.unit.protos import event, events, message, node

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
            viewer.wait_for_keys("dense", "tower")
            assert viewer.browser.title == f"{logs} · lowtide"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
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
    # Chromium tells of every answer that is an error.
    (told,) = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert "404" in told["message"]


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


def test_what_is_selected_is_announced(look, site):
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


def test_help_tells_the_keys(look, site):
    viewer = look(site, "#graph/0.0")
    viewer.wait(viewer.drawn)
    viewer.find("canvas.stage").send_keys("?")
    viewer.wait_for_text("dialog.help", "open or close the selected box")
    viewer.keyboard("\ue00c")
    viewer.wait(lambda: not viewer.find_all("dialog.help"))


# -- names of any kind ----------------------------------------------------------------------------------

SCRIPT, IMAGE = "<script>alert(1)</script>", "<img src=x onerror=alert(2)>"
NASTY = b"".join(
    (
        node(SCRIPT, "Placeholder", attributes=typed(FLOAT, shape(2), key="dtype")),
        node(f"{IMAGE}/{IMAGE}", IMAGE, SCRIPT, f"^missing {IMAGE}", device=IMAGE),
        node("<b>bold", SCRIPT, f"{IMAGE}/{IMAGE}", attributes=attribute(IMAGE, message(2, IMAGE))),
        node("call", "PartitionedCall", "<b>bold", attributes=attribute("f", message(10, message(1, IMAGE)))),
    )
) + message(2, function(IMAGE, ["x"], [node(IMAGE, "Relu", "x")], {"y": f"{IMAGE}:y:0"}))


@pytest.fixture
def nasty_logs(tmp_path):
    """Files whose every name is markup."""
    folder = tmp_path / "logs" / "<img src=x onerror=alert(3)>"
    folder.mkdir(parents=True)
    (folder / "a <script>alert(4)<!--.pb").write_bytes(NASTY)
    tide = make_tide()
    buffers = replace(tide.buffers, layer=[IMAGE] * len(tide.buffers), name=[SCRIPT] * len(tide.buffers))
    replace(tide, target=IMAGE, notes=(SCRIPT,), buffers=buffers).save(folder / f"b {IMAGE}.tide")
    return tmp_path / "logs"


def check_no_markup(viewer: Viewer) -> None:
    from selenium.webdriver.support.expected_conditions import alert_is_present

    assert not alert_is_present()(viewer.browser)
    assert viewer.find_all("img, b.bold, main script, body script, iframe, object") == []


def test_names_are_text_whatever_they_are(view, nasty_logs):
    viewer = view(nasty_logs)
    viewer.wait_for_keys("<b>bold", "call")
    check_no_markup(viewer)
    assert IMAGE in viewer.texts("[role=tree] .name")
    viewer.select(f"{IMAGE}/{IMAGE}")
    said = viewer.wait_for_text(".details", "READERS")
    assert said.count(IMAGE) >= 4
    assert viewer.texts(".links .missing .name") == [f"^missing {IMAGE}"]
    assert IMAGE in viewer.text("[aria-live]") or IMAGE in viewer.texts("[aria-live=polite]")[0]
    check_no_markup(viewer)
    viewer.select("<b>bold")
    viewer.wait_for_text(".details", "ATTRIBUTES")
    assert viewer.texts(".details .attributes dt") == [IMAGE]
    viewer.select("call")
    viewer.wait_for_text(".details", "CALLS")
    viewer.press(f"{IMAGE}enter", ".details")
    viewer.wait_for_keys(IMAGE, "x")
    viewer.choose("select[aria-label='What colours say']", "Device")
    check_no_markup(viewer)
    assert any("alert(3)" in label and "alert(4)" in label for label in picker_labels(viewer))


def picker_labels(viewer: Viewer) -> list[str]:
    return viewer.run("return [...document.querySelectorAll('select.picker optgroup')].map((each) => each.label)")


def test_names_in_a_tide_are_text(view, nasty_logs):
    viewer = view(nasty_logs, view="#tide/1")
    viewer.wait_for_text("h1", IMAGE)
    viewer.press(SCRIPT, "table")
    viewer.wait_for_text(".selected code", SCRIPT)
    viewer.find(".chart.curve").send_keys("\ue012")
    check_no_markup(viewer)
    assert SCRIPT in viewer.text(".facts")


# -- files as they are ----------------------------------------------------------------------------------


def damaged_graphs() -> dict[str, tuple[bytes, str, int]]:
    """Graphs that something is wrong with: the bytes, what is told of it, and how many nodes there are."""
    start = b"".join(DENSE)
    flipped = bytearray(events(event(message(4, TRAIN_STEP))))
    flipped[-10] ^= 1
    return {
        "cut.pb": (start[:-40], "damaged or cut", len(DENSE) - 1),
        "cut.tfevents": (events(event(message(4, TRAIN_STEP)))[:-3000], "the file ends in the middle of it", 100),
        "checksum.tfevents": (bytes(flipped), "checksum does not match", 296),
        "missing.pb": (start + node("y", "AddN", "gone", "away"), "2 inputs name nodes that are not there", 7),
        "circle.pb": (start + node("a", "Relu", "b") + node("b", "Relu", "a"), "circle", 8),
    }


def test_what_is_wrong_with_a_file_is_on_the_screen(view, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    cases = damaged_graphs()
    for name, (content, *_) in cases.items():
        (folder / name).write_bytes(content)
    viewer = view(folder)
    viewer.wait_for_keys("dense")
    for number, name in enumerate(sorted(cases)):
        _, note, least = cases[name]
        viewer.run("location.hash = arguments[0]", f"#graph/{number}.0")
        viewer.wait(lambda note=note: any(note in said for said in viewer.texts(".below .note")), f"{name}: {note}")
        viewer.wait_for_keys("x", "dense")
        assert sum(box["count"] for box in viewer.drawn()) >= least
        assert viewer.find(".below .note").is_displayed()


def test_a_file_that_holds_nothing_says_so(view, tmp_path):
    (tmp_path / "empty.pb").write_bytes(b"\xff" * 64)
    viewer = view(tmp_path / "empty.pb")
    said = viewer.wait_for_text(".card.problem", "Nothing to show")
    assert "empty.pb: no graph is in this file" in said


def test_a_file_that_grows_shows_more(view, tmp_path):
    path = tmp_path / "events.out.tfevents.1.host"
    whole = events(event(message(4, TRAIN_STEP)))
    path.write_bytes(whole[: len(whole) // 4])
    viewer = view(path)
    viewer.wait_for_keys("x", "dense")
    viewer.wait(lambda: any("ends in the middle" in note for note in viewer.texts(".below .note")))
    assert viewer.keys().isdisjoint({"adam"})
    path.write_bytes(whole)
    viewer.browser.refresh()
    viewer.wait_for_keys("adam", "metrics")
    viewer.wait(lambda: viewer.texts(".below .note") == [])


def test_progress_is_shown_while_an_index_is_built(view, tmp_path, browser):
    path = tmp_path / "large.pb"
    with path.open("wb") as file:
        tower = b"".join(flat_nodes(20_000, "tower_00"))
        for scope in range(12):
            file.write(tower.replace(b"tower_00", b"tower_%02d" % scope))
    # What is on the page only for a moment is noted by the page itself.
    watch = """
    window.seen = [];
    new MutationObserver(() => {
        const card = document.querySelector('.building');
        if (card) window.seen.push([card.querySelector('progress')?.value ?? null, card.textContent]);
    }).observe(document, { childList: true, subtree: true });
    """
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": watch})
    try:
        viewer = view(path)
        viewer.wait_for_keys(*(f"tower_{scope:02}" for scope in range(12)))
        seen = viewer.run("return window.seen")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})
    shares = [share for share, text in seen if "Building the index" in text and "nodes" in text]
    assert shares, seen
    assert shares == sorted(shares)
    assert viewer.find_all(".over .building") == [] or not viewer.find(".over").is_displayed()
    assert "240,000 nodes in 12 groups" in viewer.text(".folded")


def test_ten_thousand_nodes_of_one_scope_are_few_items(view, tmp_path):
    path = tmp_path / "flat.pb"
    path.write_bytes(b"".join(flat_nodes(10_000)) + CALLED)
    viewer = view(path, view="#graph/0.0?open=flat")
    viewer.wait(lambda: len(viewer.drawn()) > 1)
    items = [box for box in viewer.drawn() if box["key"] != "flat"]
    assert len(items) <= 120
    assert sum(box["count"] for box in items) == 10_000
    said = viewer.text(".folded")
    assert f"10,000 nodes in {len(items)} groups" in said
    assert viewer.find(".folded").is_displayed()
    # Any of them is still a search away.
    viewer.select("flat/node_7531")
    assert len(viewer.drawn()) < 500


def test_ten_thousand_scopes_inside_each_other(view, tmp_path):
    path = tmp_path / "deep.pb"
    path.write_bytes(node("/".join(["deep"] * 10_000), "Relu", "x") + node("x", "Placeholder"))
    viewer = view(path)
    viewer.wait_for_keys("deep", "x")
    viewer.find("[data-id='deep']").send_keys(ENTER)
    viewer.wait_for_keys("deep/deep")
