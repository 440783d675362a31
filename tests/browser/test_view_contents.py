"""Whatever a file holds is shown as far as it goes: names that are markup, damage, very many nodes."""

from dataclasses import replace

import pytest

from tests.browser.programs import CALLED, DENSE, TRAIN_STEP, flat_nodes
from tests.browser.viewer import ENTER, Viewer
from tests.conftest import make_tide
from tests.unit.graph_bytes import FLOAT, attribute, function, shape, typed
from tests.unit.protos import event, events, message, node

pytestmark = pytest.mark.browser

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


def test_names_are_shown_as_text(view, nasty_logs):
    viewer = view(nasty_logs)
    viewer.wait_for_text(".start", "alert(4)")
    check_no_markup(viewer)
    viewer.press("a <script>alert(4)<!--.pb", ".start")
    viewer.wait_for_keys("<b>bold", "call")
    check_no_markup(viewer)
    # Long names are cut in the middle; the whole name is in the tooltip.
    names = {name.get_attribute("title"): name.text for name in viewer.find_all("[role=tree] .name")}
    assert names[IMAGE].startswith("<img src=x")
    assert names[IMAGE].endswith(">")
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
    shown = viewer.text(".where .name")
    assert "alert(3)" in shown
    assert "alert(4)" in shown


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
    """Damaged graphs: the bytes, the note about the damage, and the number of nodes."""
    start = b"".join(DENSE)
    flipped = bytearray(events(event(message(4, TRAIN_STEP))))
    flipped[-10] ^= 1
    return {
        "cut.pb": (start[:-40], "damaged or cut", len(DENSE) - 1),
        "cut.tfevents": (events(event(message(4, TRAIN_STEP)))[:-3000], "the file ends in the middle of it", 100),
        "checksum.tfevents": (bytes(flipped), "checksum does not match", 296),
        "missing.pb": (start + node("y", "AddN", "gone", "away"), "2 inputs name nodes that do not exist", 7),
        "cycle.pb": (start + node("a", "Relu", "b") + node("b", "Relu", "a"), "on a cycle", 8),
    }


def test_the_damage_of_a_file_is_on_the_screen(view, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    cases = damaged_graphs()
    for name, (content, *_) in cases.items():
        (folder / name).write_bytes(content)
    viewer = view(folder, view="#graph/0.0")
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
    viewer.wait_for_text(".card.problem", "Nothing to show")
    assert "empty.pb: no graph is in this file" in viewer.text("main")


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
