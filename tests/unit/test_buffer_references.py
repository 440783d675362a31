"""Reference counts of buffers: views, reuse, variables, and the state for the next step."""

import pytest

from lowtide.simulator.executor import execute
from tests.unit.graphs import alive, event_names, finished_nodes, lasting, make_work


def run(text, **details):
    """One step on one thread, checked for leaks: the workload, the stream, and the names of its events."""
    work = make_work(text, **details)
    stream = execute(work, threads=1)
    assert alive(stream) == lasting(stream)
    return work, stream, event_names(work, stream)


def events(text, **details):
    return run(text, **details)[2]


def test_a_reshape_keeps_the_buffer():
    names = events(
        """
        x = _Arg() [1000]
        s = Const() int32[2]
        y = FancyOp(x) [1000]
        z = Reshape(y, s) [10,100]
        w = FancyOp(z) [1000]
        """
    )
    assert names == ["+y", "+w", "-y", "-w"]


def test_the_only_reader_reuses_the_buffer():
    assert events("x = _Arg() [1000]\ny = FancyOp(x) [1000]\nz = Relu(y) [1000]\nw = Tanh(z) [1000]") == ["+y", "-y"]


def test_a_buffer_with_another_reader_is_not_reused():
    names = events(
        """
        x = _Arg() [1000]
        y = FancyOp(x) [1000]
        a = Relu(y) [1000]
        b = FancyOp(y, ^a) [1000]
        """
    )
    assert names == ["+y", "+a", "-a", "+b", "-y", "-b"]


def test_the_last_reader_reuses_the_buffer():
    names = events(
        """
        x = _Arg() [1000]
        y = FancyOp(x) [1000]
        a = FancyOp(y) [1]
        b = Relu(y, ^a) [1000]
        c = FancyOp(b) [1]
        """
    )
    assert names == ["+y", "+a", "-a", "+c", "-y", "-c"]


def test_a_node_that_reads_a_tensor_twice_does_not_reuse_it():
    assert events("x = _Arg() [1000]\ny = FancyOp(x) [1000]\nz = Mul(y, y) [1000]") == ["+y", "+z", "-y", "-z"]


def test_the_second_input_is_reused_where_the_first_is_shared():
    names = events(
        """
        x = _Arg() [1000]
        y = FancyOp(x) [1000]
        z = AddV2(x, y) [1000]
        """
    )
    assert names == ["+y", "-y"]


def test_a_view_is_a_reference():
    names = events(
        """
        x = _Arg() [1000]
        y = FancyOp(x) [1000]
        v = Identity(y) [1000]
        a = Relu(y, ^v) [1000]
        b = FancyOp(v, ^a) [1000]
        """
    )
    assert names == ["+y", "+a", "-a", "+b", "-y", "-b"]


def test_arguments_and_constants_are_never_reused_or_freed():
    assert events("x = _Arg() [1000]\ny = Relu(x) [1000]") == ["+y", "-y"]
    assert events("c = Const() [1000]\ny = Relu(c) [1000]") == ["+y", "-y"]
    assert events("c = Const() [1000]\ni = Identity(c) [1000]\ny = Relu(i) [1000]") == ["+y", "-y"]


def test_temporaries_are_freed_before_inputs():
    names = events(
        """
        x = _Arg() [1000]
        y = FancyOp(x) [1000]
        z = PartitionedCall(y) [10] lowtide_workspace_bytes=4096
        """
    )
    assert names == ["+y", "+z", "+z!", "-z!", "-y", "-z"]


def test_outputs_without_readers_are_freed_at_once():
    names = events("x = _Arg() [1000]\ny = FancyOp(x) [10] [20] [30]\nz = FancyOp(y:1) [1]")
    assert names == ["+y", "+y:1", "+y:2", "-y", "-y:2", "+z", "-y:1", "-z"]


def test_results_live_until_the_step_is_over():
    work, stream, names = run("x = _Arg() [1000]\ny = FancyOp(x) [1000]\nr = _Retval(y)\nz = FancyOp(y, ^r) [10]")
    assert names == ["+y", "+z", "-z", "-y"]
    assert finished_nodes(work, stream) == ["x", "y", "r", "z"]


def test_buffers_that_exist_before_the_step():
    _, stream, _ = run(
        """
        c = Const() [5]
        x = _Arg() [1000] index=1
        v = _Arg() resource index=0
        r = ReadVariableOp(v) [250]
        """,
        variables={"v": (250,)},
    )
    # Variables, then arguments in the order of their index, then constants.
    assert [stream.sizes[buffer] for buffer in stream.before] == [1000, 160, 4000, 20]


VARIABLE = """
v = _Arg() resource index=0
x = _Arg() [250] index=1
r = ReadVariableOp(v) [250]
"""


def on_variable(text):
    return run(VARIABLE + text, variables={"v": (250,)})


def test_a_read_shares_the_variables_buffer_which_is_not_reused():
    _, stream, names = on_variable("y = Relu(r) [250]")
    assert names == ["+y", "-y"]
    assert stream.renewed == {}


def test_an_update_is_in_place_when_no_read_is_alive():
    _, stream, names = on_variable("y = FancyOp(r) [250]\nu = AssignSubVariableOp(v, y)")
    assert names == ["+y", "-y"]
    assert stream.renewed == {}


def test_an_update_copies_the_variable_while_a_read_is_alive():
    _, stream, names = on_variable("u = AssignSubVariableOp(v, x, ^r)\ny = FancyOp(r, ^u) [250]")
    # The reader keeps the old buffer; the variable goes on in a new one.
    assert names == ["+v*", "+y", "-v*", "-y"]
    old = stream.before[0]
    assert stream.sizes[stream.renewed[old]] == 1000


def test_an_assignment_adopts_the_values_buffer():
    work, stream, names = on_variable("y = FancyOp(r) [250]\na = AssignVariableOp(v, y)")
    assert names == ["+y", "-v*"]
    assert stream.owner_ids[stream.renewed[stream.before[0]]] == work.outputs[3][0]


def test_an_adopted_buffer_is_not_reused_by_a_later_reader():
    _, _, names = on_variable("y = FancyOp(r) [250]\na = AssignVariableOp(v, y)\nz = Relu(y, ^a) [250]")
    assert names == ["+y", "-v*", "+z", "-z"]


def test_a_reader_keeps_the_old_value_of_an_assigned_variable():
    _, _, names = on_variable("y = FancyOp(x) [250]\na = AssignVariableOp(v, y, ^r)\nz = FancyOp(r, ^a) [10]")
    assert names == ["+y", "+z", "-v*", "-z"]


def test_a_variable_shares_an_argument_that_it_is_given():
    _, stream, names = on_variable("a = AssignVariableOp(v, x)")
    assert names == ["-v*"]
    assert stream.renewed == {stream.before[0]: stream.before[-1]}


def test_a_variable_that_shares_an_argument_is_copied_by_its_next_update():
    _, stream, names = on_variable("a = AssignVariableOp(v, x)\nu = AssignAddVariableOp(v, x, ^a)")
    assert names == ["-v*", "+v*"]
    assert stream.renewed[stream.before[0]] not in stream.before


def test_two_updates_renew_a_variable_once():
    _, stream, _ = on_variable(
        """
        y = FancyOp(r) [250]
        a = AssignVariableOp(v, y)
        w = FancyOp(x, ^a) [250]
        b = AssignVariableOp(v, w)
        """
    )
    assert len(stream.renewed) == 1
    new = stream.renewed[stream.before[0]]
    assert stream.events.count(new) == 1
    assert ~new not in stream.events


SPARSE = """
v = _Arg() resource index=0
i = _Arg() int32[2] index=1
x = _Arg() [50,5] index=2
g = ResourceGather(v, i) [2,5]
"""


def test_a_variable_that_is_gathered_is_copied_on_a_full_read():
    _, stream, names = run(SPARSE + "r = ReadVariableOp(v, ^g) [50,5]", variables={"v": (50, 5)})
    assert names == ["+g", "-g", "+r", "-r"]
    assert stream.renewed == {}


def test_a_full_update_of_a_gathered_variable_copies_it_first():
    _, stream, names = run(SPARSE + "u = AssignAddVariableOp(v, x, ^g)", variables={"v": (50, 5)})
    assert names == ["+g", "-g", "+v*", "-v*"]
    assert len(stream.renewed) == 1


def test_a_gathered_variable_does_not_adopt_a_value():
    _, _, names = run(SPARSE + "y = FancyOp(g) [50,5]\na = AssignVariableOp(v, y)", variables={"v": (50, 5)})
    assert names == ["+g", "+y", "-g", "+v*", "-v*", "-y"]


def test_two_variables_may_be_given_the_same_value():
    text = """
    v = _Arg() resource index=0
    w = _Arg() resource index=1
    x = _Arg() [250] index=2
    y = FancyOp(x) [250]
    a = AssignVariableOp(v, y)
    b = AssignVariableOp(w, y, ^a)
    """
    work = make_work(text, variables={"v": (250,), "w": (250,)})
    stream = execute(work, threads=1)
    # One buffer with two references: it is alive after both variables released their old buffers.
    assert event_names(work, stream) == ["+y", "-v*", "-w*"]
    first, second = stream.before[:2]
    assert stream.renewed[first] == stream.renewed[second]


@pytest.mark.parametrize("op", ["ResourceApplyAdam", "ResourceApplyGradientDescent", "AssignAddVariableOp"])
def test_optimizers_update_in_place(op):
    _, stream, names = on_variable(f"y = FancyOp(r) [250]\nu = {op}(v, y)")
    assert names == ["+y", "-y"]
    assert stream.renewed == {}
