"""Where boxes and edges are drawn."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.atlas.cuts.selection import around, with_ops
from lowtide.atlas.drawing.drawing import draw
from lowtide.atlas.drawing.layered_layout import BOX_HEIGHT, BOX_WIDTH, ROW, lay_out
from lowtide.atlas.drawing.svg import render_svg
from lowtide.atlas.labels import distinct_labels, fit_labels, shorten
from tests.unit.graphdefs import cut_of, node


def test_edges_lead_down():
    layout = lay_out(3, [(0, 1), (1, 2), (0, 2)])
    rows = [y for _, y in layout.boxes]
    assert rows == sorted(rows)
    assert len(set(rows)) == 3
    # The long edge bends around the box between.
    assert len(layout.routes[2]) == 3
    assert layout.routes[2][1][0] != layout.boxes[1][0]


def test_a_cycle_is_drawn_with_one_edge_upwards():
    layout = lay_out(2, [(0, 1), (1, 0)])
    (down, up) = layout.routes
    assert down[0][1] < down[-1][1]
    assert up[0][1] > up[-1][1]


def test_a_value_that_is_read_late_is_computed_near_its_reader():
    layout = lay_out(5, [(0, 1), (1, 2), (2, 3), (4, 3)])
    assert layout.boxes[4][1] == layout.boxes[2][1]


def test_an_empty_graph_has_no_boxes():
    assert lay_out(0, []).boxes == []


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 25).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=60)
        )
    )
)
def test_boxes_never_overlap_and_rows_are_bounded(graph):
    size, pairs = graph
    edges = [(source, target) for source, target in pairs if source != target]
    layout = lay_out(size, edges)
    for (x, y), (other_x, other_y) in combinations(layout.boxes, 2):
        assert abs(x - other_x) >= BOX_WIDTH - 1e-6 or abs(y - other_y) >= BOX_HEIGHT
    rows = [y for _, y in layout.boxes]
    assert max(rows.count(row) for row in rows) <= ROW
    for x, y in layout.boxes:
        assert BOX_WIDTH / 2 - 1e-6 <= x <= layout.width - BOX_WIDTH / 2 + 1e-6
        assert y <= layout.height


def test_names_are_shortened_from_the_left():
    assert shorten("a/b", 22) == "a/b"
    assert shorten("tower_0/block_1/attention/MatMul", 22) == "…/attention/MatMul"
    assert shorten("x" * 30, 25) == "x" * 12 + "…" + "x" * 12
    assert len(shorten("scope/" + "x" * 60, 25)) == 25


def test_labels_keep_the_parts_that_distinguish_nodes():
    names = ["net/block1_conv/convolution", "net/block2_conv/convolution", "net/top/Relu", "x"]
    assert distinct_labels(names) == ["block1_conv/convolution", "block2_conv/convolution", "top/Relu", "x"]
    assert distinct_labels(["a/1/b/c/w", "a/2/b/c/w", "a/2/b/d/w"]) == ["1/…/c/w", "2/…/c/w", "d/w"]
    assert distinct_labels(["w", "a/w", "b/a/w"]) == ["w", "a/w", "b/a/w"]


def test_labels_that_are_cut_stay_different():
    assert fit_labels(["block1_conv/convolution", "block2_conv/convolution"], 18) == [
        "block1_conv/convo…",
        "block2_conv/convo…",
    ]
    assert fit_labels(["block1_bn/batchnorm/mul_1", "block1_bn/batchnorm/add_1"], 18) == [
        "block1_bn/…/mul_1",
        "block1_bn/…/add_1",
    ]
    assert fit_labels(["block1a_project_bn_1/batchnorm/mul_1", "block1a_project_bn_1/batchnorm/add_1"], 22) == [
        "block1a…t_bn_1/…/mul_1",
        "block1a…t_bn_1/…/add_1",
    ]
    long = [f"{'block' * 8}{letter}{'tail' * 8}" for letter in "ab"]
    assert fit_labels(long, 20) == ["…ckatailtailtailtai…", "…ckbtailtailtailtai…"]


@given(st.lists(st.text("ab/", min_size=1, max_size=40), unique=True, max_size=30), st.integers(8, 30))
def test_labels_of_different_names_differ_and_fit(names, most):
    labels = distinct_labels(names)
    assert len(set(labels)) == len(names)
    assert all(len(label) <= most for label in fit_labels(labels, most))


def test_the_node_that_others_are_drawn_around_is_marked(tmp_path):
    cut = around(cut_of(tmp_path, node("x", "Placeholder"), node("y", "Relu", "x"), node("z", "Relu", "y")), "y", 1)
    assert [(box.title, box.is_centre) for box in draw(cut).boxes] == [("x", False), ("y", True), ("z", False)]
    assert render_svg(draw(cut)).count('class="box centre"') == 1
    # Also in a box of its scope, and after further cuts.
    assert [box.is_centre for box in draw(with_ops(cut, ["Relu"])).boxes] == [True, False]


def test_the_drawing_says_what_is_there(tmp_path):
    cut = cut_of(
        tmp_path,
        node("x", "Placeholder"),
        node("y", "Relu", "x", shape=(256,)),
        node("gradients/y", "ReluGrad", "y", "^x"),
    )
    drawing = draw(cut)
    assert [(box.title, box.detail) for box in drawing.boxes] == [
        ("x", "Placeholder"),
        ("y", "Relu · 1 KiB"),
        ("gradients/y", "ReluGrad"),
    ]
    assert drawing.subtitle == "3 nodes · 3 edges"
    assert [role for role, _ in drawing.legend] == ["forward", "backward", "input"]
    assert sum(curve.dash is not None for curve in drawing.curves) == 1
    assert drawing.notes == ()
