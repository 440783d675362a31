"""Choosing from graphs of a few nodes."""

import itertools
import tempfile
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.atlas.cuts import selection as choose
from lowtide.atlas.cuts.collapse import collapse, collapse_to_fit
from lowtide.atlas.cuts.contraction import MOST_SOURCES
from lowtide.atlas.cuts.cut import keep_nodes
from lowtide.atlas.cuts.stats import count
from lowtide.errors import LowtideError
from tests.unit.graphdefs import call, cut_of, edges_of, function, library, node, through_of


@pytest.fixture
def chain(tmp_path):
    """a → b → c → d, and a → d."""
    return cut_of(
        tmp_path,
        node("a", "Relu", shape=(2,)),
        node("b", "Exp", "a"),
        node("c", "Exp", "b"),
        node("d", "Add", "a", "c"),
    )


def test_the_whole_is_as_in_the_file(chain):
    assert edges_of(chain) == {("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")}
    assert [edge.bytes for edge in chain.bundles() if edge.source == 0] == [8, 8]
    assert through_of(chain) == set()


def test_an_op_stays_connected_through_the_others(chain):
    cut = choose.with_ops(chain, ["Relu", "Add"])
    assert cut.names() == ["a", "d"]
    assert edges_of(cut) == {("a", "d")}
    assert through_of(cut) == set(), "they are joined directly too"
    cut = choose.with_ops(chain, ["Relu", "Exp"])
    assert edges_of(cut) == {("a", "b"), ("b", "c")}
    cut = choose.with_ops(chain, ["Exp", "Add"], connected=False)
    assert edges_of(cut) == {("b", "c"), ("c", "d")}


def test_an_edge_through_a_dropped_node_is_marked(chain):
    cut = keep_nodes(chain, np.array([True, False, True, False]), connected=True)
    assert edges_of(cut) == through_of(cut) == {("a", "c")}
    assert [edge.bytes for edge in cut.bundles()] == [None]


def test_without_connection_nothing_is_joined(chain):
    assert edges_of(keep_nodes(chain, np.array([True, False, True, False]))) == set()


def test_a_second_choice_depends_on_the_first(chain):
    first = keep_nodes(chain, np.array([True, False, True, True]), connected=True)
    second = keep_nodes(first, np.array([True, False, True]), connected=True)
    assert edges_of(second) == {("a", "d")}
    third = keep_nodes(first, np.array([True, True, False]))
    assert through_of(third) == {("a", "c")}


def test_a_sample_takes_every_nth_node_of_each_kind(tmp_path):
    nodes = [node("x", "Placeholder")]
    for block in range(6):
        before = f"block_{block - 1}/out" if block else "x"
        nodes += [node(f"block_{block}/mul", "Mul", before), node(f"block_{block}/out", "Relu", f"block_{block}/mul")]
    cut = choose.sample(cut_of(tmp_path, *nodes), 3)
    assert cut.names() == ["x", "block_0/mul", "block_0/out", "block_3/mul", "block_3/out"]
    assert edges_of(cut) == {
        ("x", "block_0/mul"),
        ("block_0/mul", "block_0/out"),
        ("block_0/out", "block_3/mul"),
        ("block_3/mul", "block_3/out"),
    }
    assert through_of(cut) == {("block_0/out", "block_3/mul")}
    assert cut.notes == ("of each kind of node one in 3: 8 of 13 nodes left out",)


def test_a_sample_of_every_node_is_all(chain):
    assert choose.sample(chain, 1).names() == chain.names()
    with pytest.raises(LowtideError, match="1 or more"):
        choose.sample(chain, 0)


def test_contracted_edges_are_bounded_and_the_rest_is_counted(tmp_path):
    many = [node(f"s{number}", "Relu") for number in range(MOST_SOURCES + 3)]
    hub = node("hub", "Exp", *(f"s{number}" for number in range(MOST_SOURCES + 3)))
    cut = choose.with_ops(cut_of(tmp_path, *many, hub, node("end", "Relu", "hub")), ["Relu"])
    assert len(through_of(cut)) == MOST_SOURCES
    assert "1 of the nodes left out has more than 8 kept ones before them" in cut.notes[-1]


def test_the_nearest_are_kept(tmp_path):
    far = [node(f"s{number}", "Relu") for number in range(MOST_SOURCES + 3)]
    hub = node("hub", "Exp", *(f"s{number}" for number in range(MOST_SOURCES + 3)))
    cut = cut_of(tmp_path, *far, hub, node("zz", "Relu"), node("last", "Exp", "hub", "zz"), node("end", "Relu", "last"))
    assert ("zz", "end") in edges_of(choose.with_ops(cut, ["Relu"]))


def test_a_scope_and_what_is_not_one(tmp_path):
    cut = cut_of(tmp_path, node("t/a", "Relu"), node("t/u/b", "Exp", "t/a"), node("c", "Exp", "t/u/b"))
    assert choose.within(cut, "t/").names() == ["t/a", "t/u/b"]
    assert edges_of(choose.within(cut, "t")) == {("t/a", "t/u/b")}
    with pytest.raises(LowtideError, match="did you mean t/u"):
        choose.within(cut, "t/uu")
    with pytest.raises(LowtideError, match="no node is left"):
        choose.with_ops(choose.within(cut, "t/u"), ["Relu"])


def test_around_a_node(chain):
    assert choose.around(chain, "b", 1).names() == ["a", "b", "c"]
    assert choose.around(chain, "b", 1).notes[-1].startswith("1 hop around b: ")
    assert choose.around(chain, "^b", 0).names() == ["b"]
    assert choose.around(chain, "b:0", 2).names() == ["a", "b", "c", "d"]
    with pytest.raises(LowtideError, match="negative"):
        choose.around(chain, "b", -1)
    with pytest.raises(LowtideError, match="left out before"):
        choose.around(choose.with_ops(chain, ["Exp"]), "a", 1)


def test_missing_names_get_suggestions(tmp_path):
    cut = cut_of(tmp_path, node("tower/dense/MatMul", "MatMul"), node("tower/dense/BiasAdd", "BiasAdd"))
    with pytest.raises(LowtideError, match="did you mean tower/dense/MatMul"):
        choose.around(cut, "tower/dense/MatMull", 1)
    with pytest.raises(LowtideError, match="did you mean MatMul"):
        choose.with_ops(cut, ["matmul"])


def test_forward_only_leaves_out_training_and_pass_through_nodes(tmp_path):
    cut = cut_of(
        tmp_path,
        node("x", "Placeholder"),
        node("i", "Identity", "x"),
        node("waiting", "Identity", "x", "^i2"),
        node("i2", "Identity", "x"),
        node("y", "Relu", "i"),
        node("out", "Identity", "y"),
        node("gradients/y", "ReluGrad", "y"),
        node("update", "ApplyAdam", "gradients/y", "x"),
    )
    forward = choose.forward_only(cut)
    # One is waited for, one waits, and one has no readers.
    assert forward.names() == ["x", "waiting", "i2", "y", "out"]
    assert through_of(forward) == {("x", "y")}
    assert forward.notes == ("without training: 2 of 8 nodes left out, and 1 that only pass on their input",)


def test_an_identity_after_a_switch_is_kept(tmp_path):
    cut = cut_of(tmp_path, node("s", "Switch"), node("i", "Identity", "s:1"), node("y", "Relu", "i"))
    assert choose.forward_only(cut).names() == ["s", "i", "y"]


def test_constants_are_left_out(tmp_path):
    cut = cut_of(tmp_path, node("c", "Const"), node("y", "Relu", "c"))
    assert choose.without_constants(cut).names() == ["y"]


@pytest.fixture
def nested(tmp_path):
    return cut_of(
        tmp_path,
        node("x", "Placeholder"),
        node("a/u/p", "Relu", "x", shape=(2, 2)),
        node("a/u/q", "Exp", "a/u/p", shape=(4,)),
        node("a/r", "Exp", "a/u/p", "a/u/q", "^a/u/q"),
        node("b/one", "Relu", "a/r"),
    )


def test_collapsed_scopes_are_boxes(nested):
    cut = collapse(nested, 1)
    boxes = {box.name: box for box in cut.boxes()}
    assert {name: (box.kind, box.nodes, box.op) for name, box in boxes.items()} == {
        "x": ("node", 1, "Placeholder"),
        "a": ("scope", 3, None),
        "b/one": ("node", 1, "Relu"),
    }
    assert boxes["a"].bytes == 32
    assert edges_of(cut) == {("x", "a"), ("a", "b/one")}
    assert cut.notes == ("scopes at depth 1 are one box each: 1 of them, with 4 edges inside",)


def test_edges_of_collapsed_scopes_are_bundled(nested):
    cut = collapse(nested, 2)
    names = cut.names()
    bundle = next(edge for edge in cut.bundles() if names[edge.target] == "a/r")
    assert (names[bundle.source], bundle.count, bundle.control, bundle.bytes) == ("a/u", 3, 1, 32)
    with pytest.raises(LowtideError, match="collapse it in the end"):
        choose.sample(cut, 2)
    with pytest.raises(LowtideError, match="depth 1"):
        collapse(nested, 0)


def test_phases_that_differ_are_mixed(tmp_path):
    cut = cut_of(tmp_path, node("s/x", "Relu"), node("s/out", "Neg", "s/x"), node("s/gradients/y", "ReluGrad", "s/x"))
    assert [box.phase for box in collapse(cut, 1).boxes()] == ["mixed"]


def test_a_flat_graph_is_folded_to_fit(tmp_path):
    nodes = [node(f"layer_{number}_{kind}", "Relu") for number in range(40) for kind in "abcdefgh"]
    cut = collapse_to_fit(cut_of(tmp_path, *nodes), 100, 60)
    assert 1 < len(cut) <= 60
    assert int(cut.sizes.sum()) == 320
    assert collapse_to_fit(cut, 100, 60) is cut


def test_functions_are_parts_of_their_own(tmp_path):
    body = function("step", node("m/a", "Relu", "x"), node("m/b", "Exp", "m/a:y:0"))
    cut = cut_of(tmp_path, node("in", "Placeholder"), call("run", "step", "in"), library(body))
    assert set(cut.names()) == {"in", "run", "step::x", "step::m/a", "step::m/b"}
    assert edges_of(cut) == {("in", "run"), ("step::x", "step::m/a"), ("step::m/a", "step::m/b")}
    assert choose.within(cut, "step").names() == ["step::x", "step::m/a", "step::m/b"]
    assert choose.within(cut, "step::m").names() == choose.within(cut, "m").names() == ["step::m/a", "step::m/b"]
    assert choose.around(cut, "step::m/b", 1).names() == ["step::m/a", "step::m/b"]
    assert [(each.name, each.nodes) for each in count(cut).functions] == [("step", 3)]
    assert set(collapse(cut, 1).names()) == {"in", "run", "step::x", "step::m"}


def test_counts(nested):
    stats = count(nested)
    assert (stats.nodes, stats.edges, stats.bytes) == (5, 6, 32)
    assert [(share.name, share.nodes) for share in stats.ops] == [("Relu", 2), ("Exp", 2), ("Placeholder", 1)]
    assert [(share.name, share.nodes) for share in stats.scopes] == [("a", 3), ("b", 1)]
    assert (stats.deepest.name, stats.deepest.depth) == ("a/u", 2)
    assert stats.to_dict()["schema_version"] == 1


def test_missing_inputs_and_cycles_are_tolerated(tmp_path):
    cut = cut_of(tmp_path, node("a", "Relu", "b", "nowhere"), node("b", "Exp", "c"), node("c", "Exp", "a"))
    chosen = choose.with_ops(cut, ["Relu"])
    assert chosen.names() == ["a"]
    assert edges_of(chosen) == set()
    assert choose.around(cut, "a", 5).names() == ["a", "b", "c"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 14).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=3 * size),
            st.lists(st.booleans(), min_size=size, max_size=size),
        )
    )
)
def test_reachability_is_unchanged(graph):
    """In any graph, circles too: of the kept nodes one reaches another if and only if it did before."""
    size, pairs, kept = graph
    if not any(kept):
        kept[0] = True
    inputs = {target: [f"n{source:02}" for source, other in sorted(pairs) if other == target] for target in range(size)}
    with tempfile.TemporaryDirectory() as folder:
        nodes = [node(f"n{number:02}", "Relu", *inputs[number]) for number in range(size)]
        cut = keep_nodes(cut_of(Path(folder), *nodes), np.array(kept), connected=True)
        before = networkx.DiGraph([(f"n{source:02}", f"n{target:02}") for source, target in pairs])
        before.add_nodes_from(f"n{number:02}" for number in range(size))
        after = networkx.DiGraph(list(edges_of(cut)))
        after.add_nodes_from(cut.names())
        if cut.notes:
            return
        for one, other in itertools.permutations(cut.names(), 2):
            assert networkx.has_path(before, one, other) == networkx.has_path(after, one, other), (one, other)


def test_long_chains_take_one_step_at_a_time(tmp_path):
    """A chain has as many rounds as nodes; both ways to make a round are taken."""
    nodes = [node("begin", "Relu")]
    nodes += [node(f"c{number}", "Exp", f"c{number - 1}" if number else "begin") for number in range(500)]
    cut = choose.with_ops(cut_of(tmp_path, *nodes, node("end", "Relu", "c499")), ["Relu"])
    assert edges_of(cut) == {("begin", "end")}


def test_a_collapsed_graph_that_is_too_large_is_drawn_at_the_largest_depth_that_fits(tmp_path):
    names = [f"a{outer}/b{inner}/{op}" for outer in range(3) for inner in range(4) for op in ("x", "y")]
    cut = cut_of(tmp_path, *(node(name, "Relu") for name in names))
    assert [len(collapse(cut, depth)) for depth in (1, 2)] == [3, 12]
    shown = collapse_to_fit(collapse(cut, 2), 10, 5)
    assert [box.name for box in shown.boxes()] == ["a0", "a1", "a2"]
    assert any("12 boxes are too many to draw" in note for note in shown.notes)
    assert any("depth 1" in note for note in shown.notes)
    assert len(collapse_to_fit(collapse(cut, 2), 12, 5)) == 12
