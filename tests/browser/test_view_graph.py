"""Graphs in the page of `lowtide view`: what is drawn is what the file says."""

from itertools import pairwise

import pytest

from lowtide.atlas.screens.screen import make_screen
from lowtide.units import format_bytes
from tests.browser.programs import LOSSES, SCALES
from tests.browser.viewer import DOWN, ENTER, ESCAPE, drawn_items, shown_edges, shown_items

pytestmark = pytest.mark.browser

TOP = {"x", "dense", "call", "tower", "metrics", "gradient_tape", "adam"}


@pytest.fixture
def graph(look, site):
    """The training step, with some of it open."""

    def show(query: str = ""):
        viewer = look(site, f"#graph/0.0{query}")
        viewer.wait(viewer.drawn, "nothing was drawn")
        return viewer

    return show


def test_it_opens_at_the_top(look, site, train_step):
    viewer = look(site, "#graph/0.0")
    viewer.wait_for_keys(*TOP)
    screen = make_screen(train_step)
    assert drawn_items(viewer) == shown_items(screen)
    assert viewer.edges() == shown_edges(screen)
    counts = {box["key"]: (box["kind"], box["count"]) for box in viewer.drawn()}
    assert counts == {
        "x": ("node", 1), "dense": ("scope", 4), "call": ("node", 1), "tower": ("scope", 6),
        "metrics": ("scope", LOSSES + SCALES + 1), "gradient_tape": ("scope", 1), "adam": ("scope", 2),
    }  # fmt: skip
    # Eighty products read what the function returns, and the layer hands one tensor to the function.
    assert {("call", "metrics", SCALES), ("dense", "call", 1)} <= viewer.edges()
    assert viewer.hash == "#graph/0.0"
    assert "294 nodes in 5 groups" in viewer.text(".folded")


def test_a_double_click_opens_and_closes(graph, train_step):
    viewer = graph()
    viewer.point("dense", clicks=2)
    viewer.wait_for_keys("dense/MatMul", "dense/Relu", "dense/kernel")
    top, inside = make_screen(train_step), make_screen(train_step, path="dense")
    assert drawn_items(viewer) == shown_items(top) | shown_items(inside)
    assert viewer.edges() == shown_edges(top) | shown_edges(inside)
    viewer.point("dense", clicks=2)
    viewer.wait(lambda: viewer.keys() == TOP)


def test_the_keyboard_opens_moves_and_closes(graph):
    viewer = graph("?select=dense")
    viewer.wait(lambda: viewer.selected == "dense")
    viewer.find("canvas.stage").send_keys(ENTER)
    viewer.wait_for_keys("dense/MatMul")
    canvas = viewer.find("canvas.stage")
    # With Shift the arrows go into a box and out of it.
    canvas.send_keys("\ue008" + DOWN)
    inside = viewer.wait(lambda: (viewer.selected or "").startswith("dense/") and viewer.selected)
    canvas.send_keys(DOWN)
    viewer.wait(lambda: viewer.selected.startswith("dense/") and viewer.selected != inside)
    canvas.send_keys(ESCAPE)
    viewer.wait(lambda: viewer.selected == "dense")
    canvas.send_keys(ESCAPE)
    viewer.wait(lambda: viewer.keys() == TOP)


def test_a_series_opens_to_ranges_and_those_to_nodes(graph, train_step):
    viewer = graph("?open=metrics")
    viewer.wait_for_keys("metrics|loss", "metrics|scale", "metrics/total")
    assert shown_items(make_screen(train_step, path="metrics")) <= drawn_items(viewer)
    series = {box["key"]: box for box in viewer.drawn()}["metrics|loss"]
    assert (series["kind"], series["label"], series["count"]) == ("series", "loss_0 … loss_199", LOSSES)
    viewer.point("metrics|loss", clicks=2)
    ranges = make_screen(train_step, path="metrics", fold="loss")
    viewer.wait_for_keys(*(item.key for item in ranges.items))
    assert [(item.kind, item.nodes) for item in ranges.items] == [("range", 10)] * 20
    assert shown_items(ranges) <= drawn_items(viewer)
    viewer.find("[data-id='metrics|loss|@190-199'] .twist").click()
    viewer.wait_for_keys("metrics/loss_199")
    viewer.find("[data-id='metrics/loss_199'] .name").click()
    viewer.wait_for_text(".details .subject", "metrics/loss_199")


def test_details_are_what_the_file_says(graph):
    viewer = graph("?open=dense&select=dense/MatMul")
    said = viewer.wait_for_text(".details", "ATTRIBUTES")
    for words in ("Op\nMatMul", "Phase\nforward", "/job:localhost/replica:0/task:0/device:CPU:0", "Scope\ndense"):
        assert words in said
    assert "Position in the file\n3" in said
    assert viewer.rows(".details tbody tr") == [["0", "float32", "5×10", "200 B"]]
    assert viewer.texts(".details dl.attributes dt") == ["T", "_output_shapes"]
    assert viewer.texts(".details dl.attributes dd") == ["float32", "[5×10]"]
    assert neighbours(viewer, "Inputs") == ["x", "dense/kernel/Read"]
    assert neighbours(viewer, "Readers") == ["dense/Relu"]
    # An input is a way to go: its scopes open, and it is selected.
    viewer.click(".details button[title='dense/kernel/Read']")
    viewer.wait(lambda: viewer.selected == "dense/kernel/Read")
    assert {"dense/kernel", "dense/kernel/Read"} <= viewer.keys()
    viewer.wait_for_text(".details", "ReadVariableOp")
    assert neighbours(viewer, "Inputs") == ["dense/kernel"]


def neighbours(viewer, title: str) -> list[str]:
    script = """
    const list = [...document.querySelectorAll('.details section')]
        .find((section) => section.querySelector('h3')?.textContent.startsWith(arguments[0]));
    return [...list.querySelectorAll('li > *')].map((each) => each.title);
    """
    return viewer.run(script, title)


def test_a_node_of_many_inputs_lists_them_page_by_page(graph):
    viewer = graph("?open=metrics&select=metrics/total")
    viewer.wait_for_text(".details", f"INPUTS · {SCALES}")
    assert neighbours(viewer, "Inputs") == [f"metrics/scale_{number}" for number in range(50)]
    viewer.press("Next ›", ".details")
    viewer.wait(lambda: neighbours(viewer, "Inputs") == [f"metrics/scale_{number}" for number in range(50, SCALES)])


def test_a_called_function_is_entered_and_left(graph, train_step):
    viewer = graph("?select=call")
    viewer.wait_for_text(".details", "CALLS")
    viewer.press("normalizeenter", ".details")
    viewer.wait_for_keys("mean", "centred")
    inside = make_screen(train_step, part=1)
    assert drawn_items(viewer) == shown_items(inside)
    assert viewer.edges() == shown_edges(inside)
    assert "part=1" in viewer.hash
    viewer.choose(".parts select", "Main graph · 296 nodes")
    viewer.wait(lambda: viewer.keys() == TOP)


def test_a_called_function_opens_where_it_is_called(graph):
    viewer = graph()
    viewer.point("call", clicks=2)
    viewer.wait_for_keys("mean", "centred")
    assert viewer.keys() == TOP | {"values", "mean", "centred", "result"}


# -- finding --------------------------------------------------------------------------------------------


def results(viewer) -> list[str]:
    return viewer.run("return [...document.querySelectorAll('.results li button')].map((each) => each.title)")


def test_search_answers_as_one_types(graph):
    viewer = graph()
    viewer.find("form.search > input").send_keys("kernel")
    viewer.wait(lambda: "adam/dense_kernel_velocity" in results(viewer))
    # The scope and the node of that name, and a name that holds the word.
    assert sorted(results(viewer)) == ["adam/dense_kernel_velocity", "dense/kernel", "dense/kernel"]
    assert viewer.text(".found p").startswith(f"{len(results(viewer))} found")
    viewer.keyboard("/rea")
    viewer.wait(lambda: results(viewer) == ["dense/kernel/Read"])
    viewer.keyboard(ENTER)
    viewer.wait(lambda: viewer.selected == "dense/kernel/Read")
    assert {"dense/MatMul", "dense/kernel/Read"} <= viewer.keys()
    assert "open=dense;dense/kernel&select=dense/kernel/Read" in viewer.hash


def test_a_result_opens_the_folds_around_it(graph):
    viewer = graph()
    viewer.select("metrics/loss_137")
    assert {"metrics", "metrics|loss", "metrics|loss|@130-139", "metrics/loss_137"} <= viewer.keys()


def fill(viewer, label: str, text: str) -> None:
    field = viewer.browser.find_element("xpath", f"//form//label[span='{label}']/*[self::input or self::select]")
    if field.tag_name == "select":
        field.send_keys(text)
    else:
        field.clear()
        field.send_keys(text)


def test_filters_by_op_phase_and_bytes(graph):
    viewer = graph()
    viewer.press("Filters")
    fill(viewer, "Op", "MatMul")
    blocks = [f"tower/block_{number}/MatMul" for number in (1, 2, 3)]
    viewer.wait(lambda: sorted(results(viewer)) == sorted(["dense/MatMul", "gradient_tape/MatMul", *blocks]))
    fill(viewer, "Phase", "backward")
    viewer.wait(lambda: results(viewer) == ["gradient_tape/MatMul"])
    viewer.press("Clear", ".results")
    viewer.wait(lambda: results(viewer) == [] or not viewer.find(".results").is_displayed())
    # 25 by 10 floats are 1,000 bytes, 10 by 10 are 400.
    fill(viewer, "At least", "1000 B")
    viewer.wait(lambda: sorted(results(viewer)) == ["dense/kernel/Read", "gradient_tape/MatMul"])
    fill(viewer, "At least", "400")
    scales = [f"tower/block_{number}/scale" for number in (1, 2, 3)]
    viewer.wait(lambda: sorted(results(viewer)) == ["dense/kernel/Read", "gradient_tape/MatMul", *scales, "x"])


def test_around_a_node(graph):
    viewer = graph("?open=dense&select=dense/Relu")
    viewer.wait_for_text(".details", "WALK FROM HERE")
    viewer.choose(".details select[aria-label='How many hops']", "2 hops")
    viewer.choose(".details select[aria-label='Which way']", "to inputs")
    viewer.press("Around this node", ".details")
    viewer.wait(lambda: viewer.keys() == {"dense/Relu", "dense/MatMul", "x", "dense/kernel/Read"})
    assert viewer.edges() == {
        ("dense/MatMul", "dense/Relu", 1),
        ("x", "dense/MatMul", 1),
        ("dense/kernel/Read", "dense/MatMul", 1),
    }
    assert viewer.text(".banner span") == "Around dense/Relu, 2 hops to inputs"
    viewer.press("Back to the scopes", ".banner")
    viewer.wait(lambda: viewer.keys() == TOP)


def test_paths_between_two_nodes(graph):
    viewer = graph()
    viewer.select("dense/Relu")
    viewer.press("Path from here", ".details")
    viewer.select("gradient_tape/MatMul")
    viewer.press("Path to here", ".details")
    way = ["dense/Relu", "call", *(f"tower/block_{number}/MatMul" for number in (1, 2, 3)), "gradient_tape/MatMul"]
    viewer.wait(lambda: viewer.keys() == set(way))
    assert viewer.edges() == {(one, other, 1) for one, other in pairwise(way)}


# -- colours --------------------------------------------------------------------------------------------


def test_colours_by_phase(graph):
    viewer = graph()
    viewer.choose("select[aria-label='What colours say']", "Phase")
    # The optimizer waits for the metrics, but computes nothing from them, so they are forward.
    viewer.wait(lambda: viewer.texts(".legend > span") == ["backward", "forward", "optimizer"])
    assert "colour=phase" in viewer.hash
    shades = {key: shade_of(viewer, key) for key in ("dense", "tower", "gradient_tape", "adam")}
    assert shades["dense"] == shades["tower"]
    assert len(set(shades.values())) == 3


def shade_of(viewer, key: str) -> tuple[int, ...]:
    """The colour of a box on the canvas, near its lower border where no text is."""
    script = """
    const canvas = document.querySelector('canvas.stage'), corner = canvas.getBoundingClientRect();
    const box = window.lowtide.drawn().find((each) => each.key === arguments[0]);
    const ratio = canvas.width / corner.width;
    const [x, y] = [box.x - corner.left + box.width / 2, box.y - corner.top + box.height - 4];
    const copy = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, x * ratio, y * ratio, 1, 1, 0, 0, 1, 1);
    return [...copy.getImageData(0, 0, 1, 1).data];
    """
    return tuple(viewer.run(script, key))


def test_colours_by_the_bytes_of_a_tide(graph):
    viewer = graph("?colour=peak&tide=3")
    # At the peak the kernel, the activation, the velocity and the gradient are held, and the batch.
    viewer.wait_for_text(".legend", format_bytes(1024 + 4096))
    assert viewer.texts(".legend > span")[:2] == ["none", format_bytes(512)]
    assert shade_of(viewer, "dense") != shade_of(viewer, "tower")
    assert shade_of(viewer, "tower") == shade_of(viewer, "metrics")
    choice = "select[aria-label='What colours say']"
    viewer.wait(lambda: viewer.run("return document.querySelector(arguments[0]).value", choice) == "peak@3")


def test_the_saved_picture_is_the_drawn_one(graph, browser, tmp_path):
    import xml.etree.ElementTree as ElementTree

    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    viewer = graph()
    viewer.press("SVG")
    viewer.press("PNG")
    saved = viewer.wait(lambda: {path.suffix: path for path in tmp_path.glob("graph.*g")}.keys() == {".svg", ".png"})
    assert saved
    written = {text.text for text in ElementTree.parse(tmp_path / "graph.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert written >= TOP
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


# -- two graphs -----------------------------------------------------------------------------------------


def test_the_difference_of_two_graphs(graph, site):
    viewer = graph()
    viewer.press("Compare")
    viewer.wait(lambda: viewer.texts(".menu .pair .name")[0] == "b_wider_step.pb")
    viewer.press("Difference", ".menu .pair")
    viewer.wait(lambda: viewer.hash == "#diff/0.0/1.0")
    viewer.wait_for_keys("norm")
    assert viewer.keys() == TOP | {"norm"}
    changes = {"x": "same", "norm": "added", "metrics": "removed", "tower": "changed", "dense": "changed"}
    for key, change in changes.items():
        label = viewer.find(f"[data-id='{key}']").get_attribute("aria-label")
        assert (f", {change}" in label) == (change != "same"), label
    assert viewer.texts(".legend > span") == ["1 added", "1 removed", "4 changed", "2 same"]
    viewer.point("tower", clicks=2)
    viewer.wait_for_keys("tower/block_3")
    assert "1 added" in viewer.texts(".legend > span")
    assert "3 removed" in viewer.texts(".legend > span")


def test_two_graphs_side_by_side(graph, train_step):
    viewer = graph()
    viewer.press("Compare")
    viewer.wait(lambda: viewer.find(".menu .pair"))
    viewer.press("Beside", ".menu .pair")
    viewer.wait(lambda: viewer.texts(".pane-heading span") == ["a_train_step.pb", "b_wider_step.pb"])
    left, right = viewer.find_all("canvas.stage")
    assert viewer.keys() == TOP
    right.click()
    viewer.wait(lambda: viewer.keys() == TOP - {"metrics"} | {"norm"})
    # They open in step.
    viewer.find("[data-id='tower'] .twist").click()
    viewer.wait_for_keys("tower/block_1")
    assert viewer.keys().isdisjoint({"tower/block_3"})
    left.click()
    viewer.wait_for_keys("tower/block_3")


def test_event_files_hold_graphs_and_traces(look, site):
    viewer = look(site, "#graph/2.1")
    viewer.wait_for_keys("norm")
    assert viewer.texts(".where select option") == ["before optimization", "after optimization"]
    viewer.choose(".where select", "after optimization")
    viewer.wait(lambda: viewer.keys() == {"x", "dense"})
    assert viewer.hash == "#graph/2.2"
