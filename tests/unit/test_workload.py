"""A graph resolved by the op facts."""

from lowtide.simulator import workload
from lowtide.simulator.workload import construction_order
from tests.unit.graphs import make_graph, make_work, tensor


def names(work, nodes):
    return [work.graph.names[node] for node in nodes]


def test_roles():
    work = make_work(
        """
        x = _Arg() [4]
        v = VarHandleOp() resource
        c = Const() [4]
        r = ReadVariableOp(v) [4]
        y = AddV2(r, x) [4]
        a = AssignVariableOp(v, y)
        u = ResourceApplyAdam(v, y)
        l = EmptyTensorList(c, c) variant
        n = NoOp(^a)
        z = _Retval(y)
        """,
        variables={"v": (4,)},
    )
    assert work.role == [
        workload.ARGUMENT, workload.NOTHING, workload.CONSTANT, workload.READ, workload.COMPUTE, workload.ASSIGN,
        workload.UPDATE, workload.LIST, workload.NOTHING, workload.RETURN,
    ]  # fmt: skip
    assert not work.control_flow
    assert work.unknown == {}


def test_edges():
    work = make_work(
        """
        x = _Arg() [4]
        a = Relu(x, ^b) [4]
        b = Tanh(x) [4]
        c = AddV2(a, a) [4]
        """
    )
    assert names(work, work.roots) == ["x"]
    assert work.pending == [0, 2, 1, 2]
    assert work.reader_counts == [2, 2, 0, 0]
    # b is built before a, because a waits for it.
    assert names(work, work.successors[0]) == ["b", "a"]
    assert names(work, work.successors[1]) == ["c", "c"]
    assert names(work, work.successors[2]) == ["a"]


def test_readers_of_data_are_notified_before_control_successors():
    work = make_work("x = _Arg() [4]\na = NoOp(^x)\nb = Relu(x) [4]\nc = NoOp(^x)\nd = Tanh(x) [4]")
    assert names(work, work.successors[0]) == ["b", "d", "a", "c"]


def test_construction_order_puts_arguments_first_and_results_last():
    graph = make_graph(
        """
        r = _Retval(y)
        z = Tanh(y) [4]
        y = Relu(x) [4]
        c = Const() [4]
        x = _Arg() [4]
        """
    )
    assert [graph.names[node] for node in construction_order(graph)] == ["x", "y", "z", "c", "r"]


def test_construction_order_does_not_wait_for_the_end_of_a_loop():
    graph = make_graph(
        """
        x = _Arg() [4]
        e = Enter(x) [4] frame_name="loop"
        m = Merge(e, n) [4] int32[]
        n = NextIteration(m) [4]
        """
    )
    assert [graph.names[node] for node in construction_order(graph)] == ["x", "e", "m", "n"]


def test_sizes():
    work = make_work("v = _Arg() resource\nx = _Arg() [10,10]\ny = Where(x) float32?\nz = Relu(x) int64[3]")
    assert work.sizes == [160, 400, 4, 24]
    assert work.unsized == [2]


def test_a_resource_of_unknown_shape_is_one_handle():
    graph = make_graph("v = _Arg() resource")
    graph.shapes[0] = None
    work = workload.build_workload(graph)
    assert work.sizes == [160]
    assert work.unsized == []


def test_buffer_reuses_are_resolved_to_tensors():
    work = make_work(
        """
        x = _Arg() [4]
        s = Const() int32[2]
        y = Reshape(x, s) [2,2]
        z = AddV2(y, x) [2,2]
        w = AddV2(z, s) [8]
        """
    )
    assert work.buffer_reuses[2] == [(2, 0, True)]
    assert work.buffer_reuses[3] == [(3, 2, False), (3, 0, False)]
    assert work.buffer_reuses[4] == []  # neither input is as large as the output


def test_forwarding_needs_the_same_type():
    work = make_work("x = _Arg() int32[4]\ny = Relu(x) [4]")
    assert work.buffer_reuses[1] == []


def test_unknown_ops_are_named_and_sized_by_their_outputs():
    work = make_work("x = _Arg() [4]\na = FancyOp(x) [8]\nb = FancyOp(a) [16]\nc = OtherOp(b) [1]")
    assert work.unknown == {"FancyOp": [1, 2], "OtherOp": [3]}
    assert work.sizes[1:3] == [32, 64]
    assert list(work.buffer_reuses[1]) == []


def test_a_call_without_a_stated_workspace_is_unknown():
    work = make_work(
        "x = _Arg() [4]\na = PartitionedCall(x) [4]\nb = PartitionedCall(x) [4] lowtide_workspace_bytes=1000"
    )
    assert work.unknown == {"PartitionedCall": [1]}
    assert work.temporaries == [(), (), [1000]]


def test_variables_behind_handles_and_sparse_ones():
    work = make_work(
        """
        v = _Arg() resource
        w = _Arg() resource
        i = Const() int32[2]
        h = Identity(v) resource
        g = ResourceGather(h, i) [2,8]
        r = ReadVariableOp(w) [5,8]
        """,
        variables={"v": (5, 8), "w": (5, 8)},
    )
    handle = {name: tensor(work.graph, name) for name in "vwh"}
    assert work.variable_of == {handle["v"]: handle["v"], handle["w"]: handle["w"], handle["h"]: handle["v"]}
    assert work.sparse == {handle["v"]}


def test_a_cheap_node_and_a_free_one():
    work = make_work("x = _Arg() [4]\ns = Const() int32[1]\ny = Reshape(x, s) [4]\nz = Relu(y) [4]")
    assert work.cheap == [True, True, True, False]
    assert work.cost_us[2] == 0.0
    assert work.cost_us[3] > 0.0
