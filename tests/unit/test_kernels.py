"""oneDNN's ops in place of a graph's own ops."""

from lowtide.program.kernels import with_kernels
from lowtide.simulator.workload import build_workload
from tests.unit.graphs import make_graph

GRAPH = """
x = _Arg() [8,8]
w = _Arg() [8,8]
y = MatMul(x, w) [8,8]
f = _FusedMatMul(y, w) [8,8]
g = Conv2DBackpropFilter(x, w) [8,8]
b = BiasAddGrad(x) [8]
r = Relu(f) [8,8]
"""


def ops(executed):
    graph = make_graph(GRAPH)
    found = with_kernels(graph, make_graph(executed))
    assert graph.ops == make_graph(GRAPH).ops
    return dict(zip(found.names, found.ops, strict=True))


def test_nodes_get_the_kernels_that_run_under_their_names():
    found = ops("y = _MklMatMul() [8,8]\nf = _MklNativeFusedMatMul() [8,8]\nr = Relu() [8,8]")
    assert (found["y"], found["f"], found["r"]) == ("_MklMatMul", "_MklNativeFusedMatMul", "Relu")
    assert (found["x"], found["g"]) == ("_Arg", "Conv2DBackpropFilter")


def test_a_gradient_that_runs_together_with_another_stays_one():
    found = ops("g = _MklNativeConv2DBackpropFilterWithBias() [8,8] [8]")
    assert (found["g"], found["b"]) == ("_MklNativeConv2DBackpropFilter", "BiasAddGrad")


def test_a_fusion_of_several_ops_is_no_kernel_of_one():
    assert ops("r = _MklNativeFusedMatMul() [8,8]")["r"] == "Relu"


def test_extra_outputs_of_a_kernel_count_with_its_last_output_only():
    """oneDNN's pooling also stores the position of each maximum, in a byte."""
    graph = make_graph("x = _Arg() [1,8,8,4]\np = MaxPool(x) [1,4,4,4] ksize=[1,2,2,1]\nn = Neg(x) [1,8,8,4]")
    executed = make_graph("p = _MklNativeMaxPool() [1,4,4,4] uint8[64]")
    work = build_workload(with_kernels(graph, executed))
    assert [work.sizes[work.outputs[node][0]] for node in (1, 2)] == [64 * 4 + 64, 1024]
