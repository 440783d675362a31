"""How a graph is read: room, colours, labels, what a scope reads and gives, and names that cannot be seen."""

import pytest

from tests.browser.programs import DENSE, TRAIN_STEP
from tests.browser.viewer import DOWN, ENTER, RIGHT, TAB, Viewer
from tests.unit.graph_bytes import FLOAT, shape, typed
from tests.unit.protos import node

pytestmark = pytest.mark.browser

SEA = "#0d8f9b"


@pytest.fixture
def graph(look, site):
    """The training step, open as asked."""

    def show(view: str = "#graph/0.0") -> Viewer:
        viewer = look(site, view)
        viewer.wait(viewer.drawn)
        return viewer

    return show


def saved_svg(viewer: Viewer) -> str:
    """What the button SVG saves."""
    viewer.run("URL.createObjectURL = (blob) => { blob.text().then((text) => (window.saved = text)); return 'data:,' }")
    viewer.press("SVG")
    return viewer.wait(lambda: viewer.run("return window.saved"))


def width_of(viewer: Viewer, selector: str) -> int:
    return viewer.run("return document.querySelector(arguments[0]).getBoundingClientRect().width", selector)


def test_details_take_room_only_for_what_is_selected(graph, window):
    window(1280, height=800)
    viewer = graph()
    assert width_of(viewer, ".side.right") == 0
    assert width_of(viewer, "canvas.stage") > 1000
    (before,) = (box for box in viewer.drawn() if box["key"] == "tower")
    viewer.point("tower")
    viewer.wait_for_text(".details h2", "tower")
    viewer.wait(lambda: width_of(viewer, ".side.right") > 300)
    (after,) = (box for box in viewer.drawn() if box["key"] == "tower")
    assert after["width"] == before["width"]
    assert after["x"] + after["width"] <= 1280 - 316
    viewer.click(".details .close")
    viewer.wait(lambda: width_of(viewer, ".side.right") == 0)


def test_a_box_under_the_details_moves_into_sight(graph, window):
    window(1280, height=800)
    viewer = graph("#graph/0.0?open=metrics")
    viewer.wait_for_keys("metrics/total")
    hidden = max(viewer.drawn(), key=lambda box: box["x"] if 280 < box["x"] < 1100 and 100 < box["y"] < 700 else 0)
    viewer.point(hidden["key"])
    viewer.wait(lambda: width_of(viewer, ".side.right") > 300)

    def is_in_sight() -> bool:
        (box,) = (each for each in viewer.drawn() if each["id"] == hidden["id"])
        return box["x"] + box["width"] <= 1280 - 316

    viewer.wait(is_in_sight)


def test_the_drawing_makes_room_for_the_details_of_what_the_keyboard_chose(graph, window):
    window(1280, height=800)
    viewer = graph()
    viewer.find("canvas.stage").send_keys(DOWN)
    viewer.wait(lambda: width_of(viewer, ".side.right") > 300)
    viewer.wait(lambda: max(box["x"] + box["width"] for box in viewer.drawn()) <= 1280 - 316)
    assert min(box["x"] for box in viewer.drawn()) >= 272


def test_what_a_scope_holds_is_in_sight_once_it_is_open(view, window, tmp_path):
    """The scope is wider than the window, and its first row is in its middle."""
    window(1280, height=800)
    wide = [node(f"wide/reader_{chr(97 + number)}_of_the_first", "Exp", "wide/first") for number in range(24)]
    (tmp_path / "graph.pb").write_bytes(b"".join([node("x", "Placeholder"), node("wide/first", "Relu", "x"), *wide]))
    viewer = view(tmp_path / "graph.pb", view="#graph/0.0?select=wide")
    viewer.wait(lambda: viewer.selected == "wide")
    viewer.find("canvas.stage").send_keys("+" * 3 + ENTER)
    viewer.wait_for_keys("wide/first")
    viewer.wait(lambda: width_of(viewer, ".side.right") > 300)
    boxes = {box["key"]: box for box in viewer.drawn()}
    assert boxes["wide"]["width"] > 1280 - 316 - 272

    def is_in_sight() -> bool:
        (box,) = (each for each in viewer.drawn() if each["key"] == "wide/first")
        return box["x"] >= 272 and box["x"] + box["width"] <= 1280 - 316 and 94 <= box["y"] <= 700

    viewer.wait(is_in_sight)


def test_lists_of_neighbours_start_at_the_left_and_are_not_cut(graph, window):
    window(1280, height=800)
    viewer = graph("#graph/0.0?open=tower;tower%2Fblock_2&select=tower%2Fblock_2%2FMatMul")
    viewer.wait_for_text(".details", "tower/block_1")
    cut = """
    return [...document.querySelectorAll('.details .where')].map((line) => {
        const range = document.createRange(), box = line.getBoundingClientRect();
        range.selectNodeContents(line);
        const [first] = range.getClientRects();
        return [Math.round(first.left - box.left), line.scrollWidth - line.clientWidth];
    });
    """
    assert viewer.run(cut)
    assert viewer.run(cut) == [[0, 0]] * len(viewer.run(cut))


def test_the_minimap_shows_where_the_window_is_and_moves_it(graph, window):
    window(1280, height=800)
    viewer = graph()
    assert not viewer.find(".minimap").is_displayed()
    viewer = graph("#graph/0.0?open=metrics;tower;dense")
    viewer.wait_for_keys("metrics/total")
    viewer.wait(lambda: viewer.find(".minimap").is_displayed())
    before = viewer.run("return window.lowtide.state().camera")
    viewer.click(".minimap")
    viewer.wait(lambda: viewer.run("return window.lowtide.state().camera") != before)
    painted = """
    const map = document.querySelector('.minimap');
    return new Set(map.getContext('2d').getImageData(0, 0, map.width, map.height).data).size;
    """
    assert viewer.run(painted) > 10


def test_scopes_have_the_colour_of_what_they_mainly_hold(graph):
    viewer = graph()
    # Both scopes of matrix products, and the metrics, of which the constants do not count.
    assert {"matrix and convolution", "element by element", "optimizer update"} <= set(viewer.texts(".legend > span"))
    viewer.point("tower")
    assert "MatMul" in viewer.wait_for_text(".details", "Main op")


def test_edges_show_the_shape_of_their_tensor(graph):
    viewer = graph("#graph/0.0?open=dense")
    viewer.wait_for_keys("dense/MatMul")
    assert ">5×10 · 200 B</text>" in saved_svg(viewer)


def test_a_scope_lists_what_it_reads_and_what_reads_it(graph):
    viewer = graph()
    viewer.point("dense")
    said = viewer.wait_for_text(".details", "OUTPUTS")
    assert "INPUTS · 1" in said
    assert "5×25 · 500 B" in said
    assert "OUTPUTS · 2" in said
    viewer.press("ReluReludense  ·  5×10 · 200 B", ".details")
    viewer.wait(lambda: viewer.selected == "dense/Relu")


def test_the_node_that_others_are_shown_around_stays_marked(graph):
    viewer = graph("#graph/0.0?around=tower/block_2/MatMul&hops=1&select=tower/block_1/MatMul")
    viewer.wait(lambda: len(viewer.drawn()) > 2)
    labels = {box["key"]: box["label"] for box in viewer.drawn()}
    assert labels["tower/block_2/MatMul"] == "block_2/MatMul"
    assert labels["tower/block_1/MatMul"] == "block_1/MatMul"
    svg = saved_svg(viewer)
    assert svg.count(f'stroke="{SEA}" stroke-width="3.5"') == 1
    assert ">block_2/MatMul</text>" in svg


def test_long_names_are_cut_where_they_do_not_differ(view, tmp_path):
    start = "a_name_of_a_layer_that_is_much_too_long_for_its_box_and_ends_in_"
    names = [f"{start}{letter}{'x' * 40}" for letter in "ab"]
    (tmp_path / "graph.pb").write_bytes(b"".join(node(f"{name}/convolution", "Conv2D") for name in names))
    viewer = view(tmp_path / "graph.pb")
    viewer.wait_for_keys(*names)
    outline = viewer.texts("[role=treeitem] > .line > .name")
    assert any("…ax" in text for text in outline)
    assert len(set(outline)) == len(outline)
    svg = saved_svg(viewer)
    assert "…ax" in svg
    assert "…bx" in svg


def test_a_name_in_the_outline_takes_the_room_of_a_long_op(view, tmp_path):
    names = [f"layer_normalization_{number}" for number in range(3)]
    (tmp_path / "graph.pb").write_bytes(b"".join(node(name, "LayerNormalization") for name in names))
    viewer = view(tmp_path / "graph.pb")
    viewer.wait_for_keys(*names)
    assert viewer.texts(".tree .name") == names
    names = "[...document.querySelectorAll('.tree .name')]"
    assert viewer.run(f"return {names}.every((each) => each.scrollWidth <= each.clientWidth)")


def test_notes_are_not_shown_as_alarms(view, tmp_path):
    loop = node("a", "Merge", "b") + node("b", "NextIteration", "a")
    (tmp_path / "graph.pb").write_bytes(b"".join(DENSE) + loop)
    viewer = view(tmp_path / "graph.pb")
    viewer.wait_for_text(".below .note", "cycle")
    colour = "return getComputedStyle(document.querySelector(arguments[0])).color"
    note, text = viewer.run(colour, ".below .note"), viewer.run(colour, "body")
    assert note == text


@pytest.mark.parametrize(("view", "stays"), [("#graph/0.0", "canvas.stage"), ("#tide/3", ".chart.curve")])
def test_after_the_skip_link_the_arrows_work(look, site, view, stays):
    viewer = look(site, view)
    viewer.wait(lambda: viewer.find(f"main {stays}").is_displayed())
    viewer.wait(lambda: viewer.find("header .tabs a"))
    viewer.keyboard(TAB)
    assert viewer.run("return document.activeElement.textContent") == "Skip to the view"
    viewer.keyboard(ENTER)
    assert viewer.run("return document.activeElement.matches(arguments[0])", stays)
    if stays == "canvas.stage":
        viewer.wait(viewer.drawn)
        viewer.keyboard(DOWN)
        viewer.wait(lambda: viewer.selected is not None)
    else:
        viewer.keyboard(RIGHT)
        viewer.wait(lambda: viewer.find(".chart.curve .tooltip").is_displayed())


HIDDEN = "gnp\u202eexe/\u2066x\u200b"


def test_names_that_cannot_be_seen_are_escaped(view, tmp_path):
    nodes = (
        node(HIDDEN, "Relu", attributes=typed(FLOAT, shape(2))),
        node("scope//leaf", "Relu", HIDDEN),
        node("ring\u0007", "Relu\u202e", HIDDEN),
    )
    folder = tmp_path / "run\u202e"
    folder.mkdir()
    (folder / "graph.pb").write_bytes(b"".join(nodes))
    (folder / "other.pb").write_bytes(TRAIN_STEP)
    viewer = view(tmp_path, view="#graph/0.0")
    viewer.wait_for_keys("gnp\u202eexe", "scope")
    assert {"gnp\\u202eexe", "ring\\u0007"} <= set(viewer.texts("[role=tree] .name"))
    viewer.run("location.hash = `#graph/0.0?select=${encodeURIComponent(arguments[0])}`", HIDDEN)
    viewer.wait(lambda: viewer.selected == HIDDEN)
    viewer.wait_for_text(".details h2", "x")
    assert "gnp\\u202eexe/\\u2066x\\u200b" in viewer.text(".details .path")
    viewer.find("[data-id='scope'] .twist").click()
    viewer.wait(lambda: '""' in viewer.texts("[role=tree] .name"))
    svg = saved_svg(viewer)
    assert ">gnp\\u202eexe</text>" in svg
    assert ">&quot;&quot;</text>" in svg
    unseen = (
        "return [...document.querySelectorAll('*')].map((e) => [e.textContent, e.title, e.ariaLabel].join()).join()"
    )
    for text in (svg, viewer.run(unseen), viewer.browser.title):
        assert not set(text) & set("\u202e\u2066\u200b\u0007")
    viewer.press("Start", "header")
    viewer.wait_for_text(".start", "run\\u202e")
    assert "\u202e" not in viewer.run(unseen)


def test_lifetimes_are_no_longer_than_the_step(graph):
    viewer = graph("#graph/0.0?tide=3&colour=lifetime")
    viewer.wait(lambda: any("event" in text for text in viewer.texts(".legend > span")))
    counts = [int(text.split()[0]) for text in viewer.texts(".legend > span") if "event" in text]
    # The step has the events 1 to 6.
    assert max(counts) == 6
