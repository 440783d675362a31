"""Screens: what is folded, how edges are bundled, and that nothing is lost on the way."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.atlas.breadth_first import around, shortest_paths
from lowtide.atlas.screens.breadcrumbs import breadcrumbs_to_node
from lowtide.atlas.screens.comparison import compare_screens, paired_part
from lowtide.atlas.screens.folding import LIMIT, MOST
from lowtide.atlas.screens.group_borders import group_borders
from lowtide.atlas.screens.screen import make_node_screen, make_screen
from lowtide.atlas.screens.screen_cache import screen_data
from lowtide.atlas.search import Query, search
from lowtide.atlas.tide_overlay import TideOverlay
from lowtide.errors import LowtideError
from tests.conftest import make_tide
from tests.unit.graph_bytes import FLOAT, TRAINING, function, shape, typed
from tests.unit.protos import message, node


def labels(screen):
    return [item.label for item in screen.items]


def edges(screen):
    return {
        (screen.items[a].label, screen.items[b].label): (count, size, waits)
        for a, b, count, size, waits, _ in screen.edges
    }


def test_a_screen_of_a_small_graph_has_each_child_and_bundled_edges(atlas_of):
    screen = make_screen(atlas_of(*TRAINING))
    assert labels(screen) == ["x", "lr", "dense", "gradient_tape", "adam"]
    assert [item.kind for item in screen.items] == ["node", "node", "scope", "scope", "scope"]
    assert edges(screen) == {
        ("x", "dense"): (2, 48, 0),
        ("x", "gradient_tape"): (1, 48, 0),
        ("dense", "gradient_tape"): (1, 32, 0),
        ("dense", "adam"): (2, 160, 1),
        ("gradient_tape", "adam"): (1, 24, 0),
        ("lr", "adam"): (1, 4, 0),
    }
    assert [item.phase for item in screen.items] == ["forward", "optimizer", "forward", "backward", "optimizer"]
    assert (screen.nodes, screen.children, screen.hidden_edges) == (8, 5, 0)


def test_edges_across_the_border_are_counted(atlas_of):
    screen = make_screen(atlas_of(*TRAINING), path="dense")
    assert labels(screen) == ["MatMul", "Less", "kernel"]
    assert [(labels(screen)[row], count) for row, count, _ in screen.incoming] == [("MatMul", 1), ("Less", 1)]
    assert [(labels(screen)[row], count) for row, count, _ in screen.outgoing] == [
        ("MatMul", 1),
        ("Less", 1),
        ("kernel", 1),
    ]
    assert screen.items[0].shape == "4×2"
    assert make_screen(atlas_of(*TRAINING), path="dense/kernel").items[0].label == "(kernel)"


def chain(names, op="Relu"):
    """Nodes that each read the one before."""
    return [node(name, op, *names[max(place - 1, 0) : place]) for place, name in enumerate(names)]


def opened(atlas, key):
    path, _, fold = key.partition("|")
    return make_screen(atlas, path=path, fold=fold)


def test_a_long_series_is_one_item_and_opens_into_ranges(atlas_of):
    atlas = atlas_of(*chain([f"MatMul_{number}" for number in range(5000)], "MatMul"), node("out", "Identity"))
    screen = make_screen(atlas)
    assert [(item.kind, item.label, item.nodes, item.op) for item in screen.items] == [
        ("series", "MatMul_0 … MatMul_4999", 5000, "MatMul"),
        ("node", "out", 1, "Identity"),
    ]
    inner = opened(atlas, screen.items[0].key)
    assert [item.label for item in inner.items[:2]] == ["MatMul_0 … MatMul_99", "MatMul_100 … MatMul_199"]
    assert inner.edges == [(row, row + 1, 1, 0, 0, None) for row in range(49)]
    assert labels(opened(atlas, inner.items[1].key))[:2] == ["MatMul_100", "MatMul_101"]


def test_blocks_of_a_flat_graph_are_found_by_their_names(atlas_of):
    layers = ("conv", "bn", "relu", "pad", "pool")
    names = [f"conv{stage}_block{block}_{part}" for stage in range(2, 6) for block in range(1, 7) for part in layers]
    screen = make_screen(atlas_of(*chain(["stem", *names, "top"])))
    assert labels(screen)[0] == "stem"
    assert len(screen.items) <= LIMIT
    assert any(item.label == "conv2_block1…" or item.key == "|conv2_block1" for item in screen.items)
    assert sum(item.nodes for item in screen.items) == len(names) + 2


def test_names_without_information_are_folded_by_op(atlas_of):
    names = [f"{letter}{number}x" for letter in "abcdef" for number in range(100)]
    atlas = atlas_of(*(node(name, f"Op{place % 7}") for place, name in enumerate(names)))
    screen = make_screen(atlas)
    assert sorted(labels(screen)) == [f"Op{number}" for number in range(7)]
    assert sum(len(opened(atlas, item.key).items) for item in screen.items) == 600


names = st.lists(
    st.text(alphabet="ab1_./", min_size=1, max_size=12).filter(lambda name: not name.startswith("/")),
    unique=True,
    min_size=1,
    max_size=300,
)


@settings(max_examples=20, deadline=None)
@given(names, st.integers(1, 6))
def test_every_node_is_reached_by_opening_and_every_screen_is_small(tmp_path_factory, names, ops):
    from lowtide.atlas.atlas import Source
    from lowtide.atlas.index_cache import build_atlas

    folder = tmp_path_factory.mktemp("graph")
    path = folder / "graph.pb"
    # Many numbered names beside the drawn ones, so that folds come up.
    every = [*names, *(f"{name}_{number}" for name in names[:3] for number in range(130))]
    every = list(dict.fromkeys(every))
    path.write_bytes(b"".join(node(name, f"Op{place % ops}") for place, name in enumerate(every)))
    atlas = build_atlas(Source(path, 0, path.stat().st_size), cache=folder)
    assert sorted(atlas.names(range(len(atlas)))) == sorted(every)
    waiting, seen = [""], []
    while waiting:
        screen = opened(atlas, waiting.pop())
        assert len(screen.items) <= MOST + 1
        for item in screen.items:
            if item.kind == "node":
                seen.append(item.key)
            else:
                waiting.append(item.key)
    assert sorted(seen) == sorted(every)


@pytest.mark.parametrize(
    "names",
    [
        # The node `x` is shown in the scope `x`, beside the scope `x/x`; likewise `a//` and the empty names in it.
        ["x", "x/x/y", *(f"x/x_{number}" for number in range(300))],
        ["a/", "a//b", *(f"a/_{number}" for number in range(300))],
        ["a"] * 200 + [f"a_{number}" for number in range(200)],
    ],
    ids=["scope within a scope", "empty names", "repeated names"],
)
def test_entries_of_one_name_do_not_fold_into_themselves(atlas_of, names):
    atlas = atlas_of(*(node(name, "Relu") for name in names))
    waiting, seen, opened_keys = [""], [], set()
    while waiting:
        key = waiting.pop()
        assert key not in opened_keys
        assert key.count("|") < 5
        opened_keys.add(key)
        for item in opened(atlas, key).items:
            (seen if item.kind == "node" else waiting).append(item.key)
    assert sorted(seen) == sorted(names)
    assert len(breadcrumbs_to_node(atlas, 0)) < 5


def test_a_missing_fold_or_scope(atlas_of):
    atlas = atlas_of(*TRAINING)
    with pytest.raises(LowtideError, match="no such scope"):
        make_screen(atlas, path="nowhere")
    with pytest.raises(LowtideError, match="no such fold"):
        make_screen(atlas, fold="@7-9")
    with pytest.raises(LowtideError, match="no such scope"):
        make_screen(atlas, part=3)


@dataclass(frozen=True)
class Numbers:
    """The number of each node."""

    is_summed: bool

    def __call__(self, nodes):
        return nodes.astype(float)


def test_lifetimes_are_counted_in_events_of_the_step(atlas_of):
    tide = make_tide()
    overlay = TideOverlay(atlas_of(*TRAINING), tide, "lifetime")
    items = {item.label: item.value for item in make_screen(atlas_of(*TRAINING), values=overlay).items}
    # The step has the events 1 to 6: a weight lives as long, and a scope no longer than the longest of its tensors.
    assert len(tide.curve.bytes_in_use) == 7
    assert items == {"x": 6.0, "lr": 0.0, "dense": 6.0, "gradient_tape": 2.0, "adam": 0.0}


def test_values_are_summed_over_items(atlas_of):
    screen = make_screen(atlas_of(*TRAINING), values=Numbers(is_summed=True))
    assert [item.value for item in screen.items] == [0.0, 1.0, 2.0 + 3 + 4 + 5, 6.0, 7.0]
    largest = make_screen(atlas_of(*TRAINING), values=Numbers(is_summed=False))
    assert [item.value for item in largest.items] == [0.0, 1.0, 5.0, 6.0, 7.0]
    assert screen_data(atlas_of(*TRAINING))["items"][0]["value"] is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query("matmul"), {"dense/MatMul", "gradient_tape/MatMul"}),
        (Query("dense/Mat"), {"dense/MatMul"}),
        (Query("ense/kernel/R"), {"dense/kernel/Read"}),
        (Query("placeholder"), {"x"}),
        (Query(ops=("Less", "Const")), {"dense/Less", "lr"}),
        (Query(scope="dense/"), {"dense/MatMul", "dense/Less", "dense/kernel", "dense/kernel/Read"}),
        (Query(device="cpu"), {"dense/MatMul"}),
        (Query(dtype="bool"), {"dense/Less"}),
        (Query(phase="backward"), {"gradient_tape/MatMul"}),
        (Query(least_bytes=40), {"x", "dense/kernel"}),
        (Query("mat", phase="forward"), {"dense/MatMul"}),
        (Query("missing"), set()),
        (Query(phase="sideways"), set()),
    ],
    ids=lambda given: ", ".join(sorted(given)) if isinstance(given, set) else str(given),
)
def test_search(atlas_of, query, expected):
    atlas = atlas_of(*TRAINING)
    answer = search(atlas, query)
    assert set(atlas.names(answer.nodes)) == expected
    assert answer.total == len(expected) + len(answer.scopes)


def test_search_finds_scopes_and_says_how_many_there_are(atlas_of):
    atlas = atlas_of(*TRAINING)
    answer = search(atlas, Query("e"), limit=4)
    assert [atlas.scope_name(int(scope)) for scope in answer.scopes] == ["dense", "gradient_tape"]
    assert (len(answer.nodes), answer.total) == (2, 8)


@pytest.mark.parametrize("limit", [2, 4, 6, 50])
def test_the_shallowest_scopes_come_first_however_few_are_shown(atlas_of, limit):
    names = ["a/b/c/x_1/n", "a/x_2/n", "x_3/n", "a/b/x_4/n", "b/x_5/n", "x_6/n"]
    atlas = atlas_of(*chain(names))
    found = [atlas.scope_name(int(scope)) for scope in search(atlas, Query("x_"), limit=limit).scopes]
    assert found == ["x_3", "x_6", "a/x_2", "b/x_5", "a/b/x_4", "a/b/c/x_1"][: limit // 2]


def test_around_a_node_and_the_way_to_another(atlas_of):
    atlas = atlas_of(*TRAINING)
    start = atlas.find("dense/kernel/Read")
    assert set(atlas.names(around(atlas, start, 1).nodes)) == {"dense/kernel/Read", "dense/kernel", "dense/MatMul"}
    assert set(atlas.names(around(atlas, start, 1, "inputs").nodes)) == {"dense/kernel/Read", "dense/kernel"}
    near = around(atlas, start, 4, most=3)
    assert (len(near.nodes), near.hidden) == (3, 5)
    way = shortest_paths(atlas, atlas.find("x"), atlas.find("adam/apply"))
    assert way is not None
    assert set(atlas.names(way.nodes)) == {"x", "dense/Less", "gradient_tape/MatMul", "adam/apply"}
    assert shortest_paths(atlas, atlas.find("adam/apply"), atlas.find("x")) is None
    screen = make_node_screen(atlas, way.nodes, 0, "from x to adam/apply", way.hidden)
    assert edges(screen)["x", "dense/Less"] == (1, 0, 0)
    assert {item.label for item in screen.items} == {"x", "dense/Less", "gradient_tape/MatMul", "adam/apply"}


def test_labels_of_nodes_of_several_scopes_are_distinct(atlas_of):
    convolutions = [f"net/block{number}_conv/convolution" for number in range(3)]
    atlas = atlas_of(*chain(["net/stem/Relu", *convolutions]))
    screen = make_node_screen(atlas, np.arange(len(atlas)), 0, "all")
    assert {item.key: item.label for item in screen.items} == {
        "net/stem/Relu": "stem/Relu",
        **{name: name.removeprefix("net/") for name in convolutions},
    }


def test_an_edge_of_one_tensor_has_its_shape(atlas_of):
    shapes = {
        (screen.items[a].label, screen.items[b].label): shape
        for screen in [make_screen(atlas_of(*TRAINING))]
        for a, b, _, _, _, shape in screen.edges
    }
    # Two tensors of `x` go to dense; of dense's two edges to adam one is a control edge, and a resource has no shape.
    assert shapes == {
        ("x", "dense"): None, ("x", "gradient_tape"): "4×3", ("dense", "gradient_tape"): "4×2",
        ("dense", "adam"): "scalar", ("gradient_tape", "adam"): "3×2", ("lr", "adam"): "scalar",
    }  # fmt: skip


def test_a_scope_has_a_main_op_which_is_no_constant_unless_it_has_only_these(atlas_of):
    constants = [node(f"block/c{number}", "Const") for number in range(5)]
    atlas = atlas_of(*constants, *chain(["block/conv/a", "block/conv/b"], "Conv2D"), *constants_in("scales"))
    assert {item.label: item.main_op for item in make_screen(atlas).items} == {"block": "Conv2D", "scales": "Const"}


def constants_in(scope):
    return [node(f"{scope}/c{number}", "Const") for number in range(3)]


def test_inputs_and_outputs_of_a_scope(atlas_of):
    borders = group_borders(atlas_of(*TRAINING), 0, "dense")
    assert [(each["name"], each["port"], each["shape"], each["edges"]) for each in borders["inputs"]] == [
        ("x", 0, "4×3", 1),
        ("x", 1, None, 1),
    ]
    assert [(each["name"], each["control"]) for each in borders["outputs"]] == [
        ("dense/kernel", False),
        ("dense/MatMul", False),
        ("dense/Less", True),
    ]
    assert (borders["input_count"], borders["output_count"]) == (2, 3)
    assert group_borders(atlas_of(*TRAINING), 0, "")["input_count"] == 0


def test_pages_of_what_enters_a_scope(atlas_of):
    sources = [f"x_{number}" for number in range(120)]
    atlas = atlas_of(*(node(name, "Placeholder") for name in sources), node("sum/all", "AddN", *sources))
    first, last = group_borders(atlas, 0, "sum"), group_borders(atlas, 0, "sum", inputs_from=100)
    assert (len(first["inputs"]), len(last["inputs"]), first["input_count"]) == (50, 20, 120)
    fold = next(item for item in make_screen(atlas).items if item.members > 1)
    folded = group_borders(atlas, 0, *fold.key.split("|", 1))
    assert (folded["input_count"], folded["output_count"]) == (0, 120)


def test_two_graphs_compared(atlas_of):
    after = list(TRAINING)
    after[3] = node("dense/MatMul", "BatchMatMul", "x", "dense/kernel/Read", attributes=typed(FLOAT, shape(4, 2)))
    after[6] = node("rate", "Const")
    screen = compare_screens(atlas_of(*TRAINING), atlas_of(*after, name="after.pb"))
    assert {item.label: item.change for item in screen.items} == {
        "x": "same", "rate": "added", "lr": "removed", "dense": "changed",
        "gradient_tape": "same", "adam": "changed",
    }  # fmt: skip
    inner = compare_screens(atlas_of(*TRAINING), atlas_of(*after, name="after.pb"), path="dense")
    assert {item.label: item.change for item in inner.items} == {"MatMul": "changed", "Less": "same", "kernel": "same"}


def test_a_scope_is_changed_if_anything_in_it_is(atlas_of):
    def graph(name, first="x", op="Relu", elements=2, label="b"):
        inner = node(f"a/deep/{label}", op, first, attributes=typed(FLOAT, shape(elements)))
        return atlas_of(node("x", "Placeholder"), node("y", "Placeholder"), inner, node("c/n", "Neg", "x"), name=name)

    def changes(**other):
        screen = compare_screens(graph("one.pb"), graph("other.pb", **other))
        assert all(item.value is None for item in screen.items)
        return {item.label: item.change for item in screen.items}

    assert set(changes().values()) == {"same"}
    for other in ({"first": "y"}, {"op": "Elu"}, {"elements": 3}, {"label": "d"}, {"first": "x:1"}, {"first": "^x"}):
        assert changes(**other) == {"x": "same", "y": "same", "a": "changed", "c": "same"}, other


def test_functions_are_compared_by_their_names(atlas_of):
    def graph(name, *functions):
        library = message(2, *(function(each, ["x"], [node(op, "Relu", "x")], {}) for each, op in functions))
        return atlas_of(node("x", "Placeholder"), library, name=name)

    before = graph("one.pb", ("step_12", "a"), ("loss", "b"), ("step_13", "c"), ("gone_3", "d"))
    after = graph("other.pb", ("loss", "b"), ("new_9", "e"), ("step_40", "a"), ("step_41", "c"))
    assert [paired_part(before, after, part) for part in range(5)] == [0, 3, 1, 4, None]
    assert {item.change for item in compare_screens(before, after, part=1).items} == {"same"}
    assert {item.change for item in compare_screens(before, after, part=4).items} == {"removed"}
