"""From a simulation to the columns of a tide."""

import numpy as np
import pytest

from lowtide.simulator.simulate import simulate
from lowtide.simulator.simulated_process import Residents
from lowtide.tide.columns import Building
from lowtide.tide.describe import Labels, describe, node_owners
from lowtide.tide.kinds import KINDS
from lowtide.tide.owner import Owner
from lowtide.tide.tide import Tide
from tests.unit.graphs import make_graph, make_work, tensor

pytestmark = pytest.mark.usefixtures("one_thread")

# A dense layer with its gradient and a plain update, by hand.
STEP = """
kernel = _Arg() resource index=0
slot = _Arg() resource index=1
x = _Arg() [10,25] index=2
rate = Const() []
model/dense/read = ReadVariableOp(kernel) [25,4]
model/dense/product = PartitionedCall(x,model/dense/read) [10,4] lowtide_workspace_bytes=3000
loss/square = FancyOp(model/dense/product) [10,4]
gradient_tape/model/dense/product = FancyOp(x,loss/square) [25,4]
scaled = Mul(gradient_tape/model/dense/product,rate) [25,4]
update = AssignSubVariableOp(kernel,scaled)
"""
EXTRA = (("weights", "unused/kernel", 1, (7, 10)), ("other", "count", 9, ()))


@pytest.fixture
def described():
    work = make_work(STEP, variables={"kernel": (25, 4), "slot": (25, 4)})
    simulation = simulate(work, Residents(extra=(280, 8)))
    handles = {name: tensor(work.graph, name) for name in ("kernel", "slot")}
    labels = Labels(
        variables={
            handles["kernel"]: ("weights", "dense/kernel"),
            handles["slot"]: ("optimizer", "sgd/dense_kernel_momentum"),
        },
        layers=frozenset({"dense"}),
        source_of=lambda name: f"train.py:{len(name)}" if "/" in name else None,
        extra=EXTRA,
    )
    buffers, curve = describe(work, simulation, labels)
    return simulation, buffers, curve


def row(buffers, name, size=None):
    found = [i for i, each in enumerate(buffers.name) if each == name and size in (None, buffers.requested[i])]
    assert len(found) == 1, (name, found)
    return found[0]


@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [
        ("dense/kernel", 400, "weights"),
        ("sgd/dense_kernel_momentum", 400, "optimizer"),
        ("x:0", 1000, "input"),
        ("rate:0", 4, "constants"),
        ("model/dense/product:0", 160, "activations"),
        ("model/dense/product", 3000, "workspace"),
        ("loss/square:0", 160, "activations"),
        ("gradient_tape/model/dense/product:0", 400, "gradients"),
        ("unused/kernel", 280, "weights"),
        ("count", 8, "other"),
    ],
)
def test_kinds(described, name, size, kind):
    _, buffers, _ = described
    assert buffers.kind_of(row(buffers, name, size)) == kind


def test_values_computed_from_a_gradient_are_gradients():
    text = """
    x = _Arg() [100]
    gradients/a = FancyOp(x) [100]
    norm = FancyOp(gradients/a) [10]
    plain = FancyOp(x) [20]
    """
    work = make_work(text)
    buffers, _ = describe(work, simulate(work), Labels())
    kinds = {name: buffers.kind_of(place) for place, name in enumerate(buffers.name)}
    assert kinds == {"x:0": "input", "gradients/a:0": "gradients", "norm:0": "gradients", "plain:0": "activations"}


def test_the_buffer_of_a_rewritten_sum_of_gradients_is_a_gradient():
    """As Grappler's memory optimizer writes AddN: zeros in a temporary variable, to which each part is added."""
    text = """
    x = _Arg() [100]
    AddN_1/tmp_var_zeros = Const() [100]
    AddN_1/tmp_var = TemporaryVariable() [100]
    AddN_1/tmp_var_assign = Assign(AddN_1/tmp_var,AddN_1/tmp_var_zeros) [100]
    gradient_tape/dense/a = FancyOp(x) [100]
    AddN_1/tmp_var_accum_0 = AssignAdd(AddN_1/tmp_var,gradient_tape/dense/a,^AddN_1/tmp_var_assign) [100]
    """
    owners = node_owners(make_graph(text), Labels(layers=frozenset({"dense"})))
    assert owners["AddN_1/tmp_var_zeros"] == Owner(op="Const", layer="dense", kind="gradients")


def test_layers(described):
    _, buffers, _ = described
    for name in ("model/dense/product:0", "gradient_tape/model/dense/product:0", "model/dense/product"):
        assert buffers.layer[row(buffers, name)] == "dense"
    assert buffers.layer[row(buffers, "dense/kernel", 400)] == "dense"
    assert buffers.layer[row(buffers, "loss/square:0")] is None
    assert buffers.layer[row(buffers, "x:0")] is None


# Two layers, the gradients of both, and an optimizer that knows no layer.
UPDATE = """
first_kernel = _Arg() resource index=0
second_slot = _Arg() resource index=1
x = _Arg() [10,25] index=2
rate = Const() []
model/first/product = FancyOp(x) [10,4]
model/second/product = FancyOp(model/first/product) [10,4]
loss/square = FancyOp(model/second/product) [10,4]
gradient_tape/loss/mul = FancyOp(loss/square) [10,4]
gradient_tape/model/second/product = FancyOp(gradient_tape/loss/mul) [25,4]
gradient_tape/model/first/product = FancyOp(gradient_tape/model/second/product) [25,4]
clip = FancyOp(gradient_tape/model/first/product) [25,4]
adam/scaled = Mul(clip,rate) [25,4]
adam/read = ReadVariableOp(second_slot) [25,4]
adam/decayed = Mul(adam/read,rate) [25,4]
elsewhere/zeros = ZerosLike(model/first/product) [10,4]
metric/total = FancyOp(model/second/product) []
update = AssignSubVariableOp(first_kernel,adam/scaled)
"""


@pytest.fixture
def facts():
    graph = make_graph(UPDATE, variables={"first_kernel": (25, 4), "second_slot": (25, 4)})
    labels = Labels(
        variables={
            tensor(graph, "first_kernel"): ("weights", "first/kernel"),
            tensor(graph, "second_slot"): ("optimizer", "adam/second_kernel_momentum"),
        },
        layers=frozenset({"first", "second"}),
        extra=(("weights", "second/kernel", 1, (25, 4)),),
    )
    return node_owners(graph, labels)


@pytest.mark.parametrize(
    ("node", "fact"),
    [
        ("model/first/product", Owner(op="FancyOp", layer="first", kind="activations")),
        ("gradient_tape/model/second/product", Owner(op="FancyOp", layer="second", kind="gradients")),
        # By the gradient that it uses, however far off.
        ("clip", Owner(op="FancyOp", layer="first", kind="gradients")),
        ("adam/scaled", Owner(op="Mul", layer="first", kind="gradients")),
        # By the variable that it reads.
        ("adam/decayed", Owner(op="Mul", layer="second", kind="gradients")),
        # Made after another tensor, in its shape.
        ("elsewhere/zeros", Owner(op="ZerosLike", layer="first", kind="activations")),
        # What only reads a layer's output is not the layer's.
        ("metric/total", Owner(op="FancyOp", layer=None, kind="activations")),
        ("loss/square", Owner(op="FancyOp", layer=None, kind="activations")),
        # No gradient and no variable before it.
        ("gradient_tape/loss/mul", Owner(op="FancyOp", layer=None, kind="gradients")),
        ("x", Owner(op="_Arg", layer=None, kind="input")),
        ("rate", Owner(op="Const", layer=None, kind="constants")),
    ],
)
def test_an_optimizers_ops_belong_to_the_layers_whose_gradients_they_use(facts, node, fact):
    assert facts[node] == fact


def test_without_layers_nothing_belongs_to_one():
    graph = make_graph(UPDATE, variables={"first_kernel": (25, 4), "second_slot": (25, 4)})
    assert {fact.layer for fact in node_owners(graph, Labels()).values()} == {None}


def test_shapes_and_types(described):
    _, buffers, _ = described
    product = row(buffers, "model/dense/product:0")
    assert (buffers.op[product], buffers.shape[product], buffers.dtype[product]) == (
        "PartitionedCall",
        (10, 4),
        "float32",
    )
    kernel = row(buffers, "dense/kernel", 400)
    assert (buffers.op[kernel], buffers.shape[kernel]) == ("Variable", (25, 4))
    borrowed = row(buffers, "model/dense/product")
    assert (buffers.shape[borrowed], buffers.dtype[borrowed]) == (None, "uint8")
    assert buffers.dtype[row(buffers, "count")] == "int64"


def test_lifetimes(described):
    simulation, buffers, curve = described
    ends = len(simulation.stream.events) + 1
    assert len(curve) == ends
    for name, size in (("dense/kernel", 400), ("x:0", 1000), ("rate:0", 4), ("unused/kernel", 280)):
        place = row(buffers, name, size)
        assert (buffers.born[place], buffers.died[place]) == (0, ends)
    # +product +borrowed -borrowed +square -product +gradient -square -gradient: the product with the rate is in place.
    life = {
        name: (int(buffers.born[row(buffers, name)]), int(buffers.died[row(buffers, name)]))
        for name in (
            "model/dense/product:0",
            "model/dense/product",
            "loss/square:0",
            "gradient_tape/model/dense/product:0",
        )
    }
    assert list(life.values()) == [(1, 5), (2, 3), (4, 7), (6, 8)]


def test_chunks_alive_add_up_to_the_curve_at_every_event(described):
    _, buffers, curve = described
    for event in range(len(curve)):
        living = (buffers.born <= event) & (event < buffers.died)
        assert buffers.allocated[living].sum() == curve.bytes_in_use[event]


def test_the_peak_is_that_of_the_simulation(described):
    simulation, buffers, curve = described
    assert curve.bytes_in_use.max() == simulation.peak_bytes
    tide = Tide(
        "step", "simulated", 10, simulation.peak_bytes, simulation.safe_bytes, buffers, curve, Building(10, 10, 1, None)
    )
    assert tide.peak_node == "model/dense/product"
    breakdown = tide.breakdown()
    assert breakdown["workspace"] == 3000
    assert breakdown["input"] == 1000
    assert breakdown["activations"] == 160
    assert breakdown["gradients"] == 0
    assert sum(breakdown.values()) == simulation.peak_bytes


def test_nodes_of_events_have_names(described):
    simulation, _, curve = described
    names = [curve.nodes[node] for node in curve.node[1:]]
    assert names[:4] == ["model/dense/product"] * 3 + ["loss/square"]
    assert len(names) == len(simulation.stream.events)


def test_source_lines_are_looked_up_for_buffers_at_the_peak(described):
    _, buffers, _ = described
    assert buffers.source[row(buffers, "model/dense/product:0")] == f"train.py:{len('model/dense/product')}"
    assert buffers.source[row(buffers, "gradient_tape/model/dense/product:0")] is None
    assert buffers.source[row(buffers, "x:0")] is None


def test_an_unknown_shape_is_none():
    work = make_work("x = _Arg() [100]\ny = Where(x) float32?\nz = FancyOp(y) [1]")
    buffers, _ = describe(work, simulate(work), Labels())
    assert buffers.shape[row(buffers, "y:0")] is None


def test_an_empty_step():
    work = make_work("x = _Arg() [100]")
    buffers, curve = describe(work, simulate(work), Labels())
    assert curve.bytes_in_use.tolist() == [512]
    assert buffers.died.tolist() == [1]
    assert buffers.kind.tolist() == [KINDS.index("input")]
    assert buffers.kind.dtype == np.uint8


def test_what_a_process_holds_besides_the_step_is_outside():
    work = make_work("x = _Arg() [1000]\ny = FancyOp(x) [1000]")
    buffers, curve = describe(work, simulate(work, Residents(held_bytes=50_000)), Labels())
    assert (buffers.name[-1], buffers.kind_of(-1)) == ("held by the process besides the step", "outside")
    assert buffers.allocated[-1] == 46_080
    assert buffers.allocated.sum() == curve.bytes_in_use.max()
