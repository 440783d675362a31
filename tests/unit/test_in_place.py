"""Variables that keep their buffers: which are updated in place, which nodes wait, and that nothing moves."""

from dataclasses import replace

from lowtide.planning.rewrite.in_place import find_in_place_updates
from lowtide.simulator.executor import execute
from tests.unit.graphs import make_work

MOMENTUM = """
w = _Arg() resource
m = _Arg() resource
x = _Arg() [8, 100]
rate = Const() []
rw = ReadVariableOp(w) [100, 100]
y = MatMul(x, rw) [8, 100]
g = MatMul(x, y) [100, 100]
rm = ReadVariableOp(m) [100, 100]
kept = Mul(rm, rate) [100, 100]
scaled = Mul(g, rate) [100, 100]
sum = AddV2(kept, scaled) [100, 100]
am = AssignVariableOp(m, sum, ^rm)
rm2 = ReadVariableOp(m, ^am) [100, 100]
aw = AssignAddVariableOp(w, rm2, ^rw)
back = MatMul(y, rw) [8, 100]
r = _Retval(back)
"""
SHAPES = {"w": (100, 100), "m": (100, 100)}


def in_place(text=MOMENTUM, schedules=((),), copies=None, variables=None, **limits):
    work = make_work(text, variables=variables or SHAPES)
    return find_in_place_updates(work, schedules, copies or {}, **limits)


def test_a_slot_is_written_in_place_and_read_when_its_gradient_is_there():
    found = in_place()
    assert found.assignments == [("am", (100, 100))]
    assert ("scaled", "rm") in found.controls


def test_a_task_above_the_limit_may_move():
    assert in_place(largest_bytes=40_000).assignments == [("am", (100, 100))]
    assert in_place(largest_bytes=39_999).assignments == []


def test_a_small_update_waits_for_all_readers_of_the_old_value():
    found = in_place(copies={"back/again": "back"})
    assert {("y", "aw"), ("back", "aw"), ("back/again", "aw")} <= set(found.controls)


def test_a_reader_in_the_order_is_placed_just_before_its_task():
    found = in_place(schedules=(("y", "g", "back", "scaled", "kept", "sum", "am", "aw"),))
    assert ("scaled", "rm") in found.controls
    found = in_place(schedules=(("y", "g", "kept", "back", "scaled", "sum", "am", "aw"),))
    assert ("g", "rm") in found.controls


def test_an_update_in_the_order_waits_for_earlier_readers_of_the_old_value():
    found = in_place(schedules=(("y", "g", "back", "scaled", "kept", "sum", "am", "aw"),))
    assert {before for before, after in found.controls if after == "aw"} == {"y", "back"}
    found = in_place(schedules=(("y", "g", "scaled", "kept", "sum", "am", "aw", "back"),))
    assert {before for before, after in found.controls if after == "aw"} == {"y"}


def test_a_variable_that_is_read_in_parts_is_copied_anyway():
    text = MOMENTUM.replace("m = _Arg() resource", "m = _Arg() resource\nidle = ResourceGather(m, x) [8, 100]")
    assert in_place(text).assignments == []


def test_an_input_of_the_update_of_many_variables_is_a_weight():
    names = [f"v{index}" for index in range(5)]
    more = [
        line for name in names for line in (f"{name} = _Arg() resource", f"a{name} = AssignAddVariableOp({name}, kept)")
    ]
    text = "\n".join([MOMENTUM.strip(), *more])
    assert in_place(text, variables=SHAPES | dict.fromkeys(names, (100, 100))).assignments == []


def test_a_weight_that_is_assigned_is_not_copied_on_every_read():
    readers = "\n".join(f"u{index} = MatMul(x, rw) [8, 100]" for index in range(40))
    text = MOMENTUM.replace("aw = AssignAddVariableOp(w, rm2, ^rw)", f"aw = AssignVariableOp(w, rm2, ^rw)\n{readers}")
    assert [name for name, _ in in_place(text).assignments] == ["am"]


def test_updates_with_another_shape_are_unchanged():
    assert in_place(variables={"w": (100, 100), "m": ()}).assignments == []


COUNTER = """
c = _Arg() resource
one = Const() []
rc = ReadVariableOp(c) []
more = AddV2(rc, one) []
ac = AssignVariableOp(c, more, ^rc)
"""


def test_copying_a_counter_costs_nothing():
    readers = "\n".join(f"u{index} = AddV2(rc, one) []" for index in range(40))
    assert in_place(COUNTER + readers, variables={"c": ()}).assignments == [("ac", ())]
    large = COUNTER.replace("[]", "[100]") + readers.replace("[]", "[100]")
    assert in_place(large, variables={"c": (100,)}).assignments == []


def test_an_update_waits_for_readers_of_the_old_value_in_another_shape():
    text = MOMENTUM.replace(
        "back = MatMul(y, rw) [8, 100]",
        "shape = Const() [2] int32\nflat = Reshape(rw, shape) [100, 100]\nback = MatMul(y, flat) [8, 100]",
    )
    assert {("flat", "aw"), ("back", "aw")} <= set(in_place(text).controls)


def test_written_in_place_a_variable_keeps_its_buffer():
    moved = execute(make_work(MOMENTUM, variables=SHAPES), threads=1)
    text = MOMENTUM.replace("am = AssignVariableOp(m, sum, ^rm)", "am = ResourceStridedSliceAssign(m, sum, ^rm)")
    stayed = execute(make_work(text, variables=SHAPES), threads=1)
    assert len(moved.renewed) == len(stayed.renewed) + 1
    assert replace(stayed, renewed={}).before == moved.before
