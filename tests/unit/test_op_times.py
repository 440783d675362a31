"""Times of ops: which are kept of a recording, where they lie in a file, and what a plan makes of them."""

from dataclasses import replace

import numpy as np
import pytest

from lowtide.errors import LowtideError
from lowtide.planning.measured_costs import measured_times
from lowtide.run.chunks import follow
from lowtide.run.graph_names import GraphNames
from lowtide.run.op_times import op_times
from lowtide.run.recorded_tide import choose_step, recorded_tide
from lowtide.tide.columns import Building, OpTimes
from lowtide.tide.tide import Tide
from tests.conftest import make_recorded_tide, make_tide
from tests.unit.graphs import make_work
from tests.unit.streams import Stream


def run_step(stream, step, times, function="step"):
    call = stream.begin(step, function)
    stream.allocate("activation", 1000)
    for node, duration_us in times:
        stream.compute(node, duration_us)
    stream.free("activation")
    stream.end(call)


def stretch_of(stream):
    window, profile = stream.cut()
    return follow([window], [profile], stream.allocator)[0]


def as_dict(times):
    return dict(zip(times.node, times.duration_us.tolist(), strict=True))


def timed(times, **changes):
    return make_recorded_tide(times=OpTimes(list(times), np.array(list(times.values()), np.float32)), **changes)


# -- from a recording ---------------------------------------------------------------------------------


def test_a_node_takes_the_middle_of_its_times_and_in_a_loop_their_sum():
    stream = Stream()
    stream.compute("before", 500)
    for step, product in ((11, 40), (12, 90), (13, 50)):
        run_step(stream, step, [("product", product), ("loop/add", 2), ("loop/add", 3)])
        stream.compute("between", 70)
    assert as_dict(op_times(stretch_of(stream), {11, 12, 13})) == {"product": 50.0, "loop/add": 5.0}


def test_nodes_that_run_together_share_the_time():
    stream = Stream()
    call = stream.begin(11)
    stream.allocate("activation", 1000)
    stream.compute("long", 100, beside=True)
    stream.compute("first", 40)
    stream.compute("second", 20)
    stream.time += 60_000_000
    stream.compute("alone", 30)
    stream.end(call)
    # 60 of the 100 were shared by two; in the end nothing ran for a while.
    found = as_dict(op_times(stretch_of(stream), {11}))
    assert found == {"long": 70.0, "first": 20.0, "second": 10.0, "alone": 30.0}


def test_the_first_step_of_all_does_not_count_where_there_are_others():
    stream = Stream()
    run_step(stream, 1, [("product", 900)])
    run_step(stream, 2, [("product", 40)])
    stretch = stretch_of(stream)
    assert as_dict(op_times(stretch, {1, 2})) == {"product": 40.0}
    assert as_dict(op_times(stretch, {1})) == {"product": 900.0}


def test_a_name_in_two_functions_has_the_time_of_the_longer_one():
    stream = Stream()
    for step in (11, 12, 13):
        run_step(stream, step, [("add", 3), ("critic/product", 5)], "critic")
        run_step(stream, step, [("add", 8), ("generator/product", 90)], "generator")
    found = as_dict(op_times(stretch_of(stream), {11, 12, 13}))
    assert found == {"add": 8.0, "critic/product": 5.0, "generator/product": 90.0}


def test_ops_on_a_gpu_have_no_times():
    stream = Stream("GPU_0_bfc")
    run_step(stream, 11, [("product", 40)])
    assert op_times(stretch_of(stream), {11}) is None
    silent = Stream()
    run_step(silent, 11, [])
    assert op_times(stretch_of(silent), {11}) is None


def test_a_recorded_tide_has_times_and_keeps_them_in_its_file(tmp_path):
    stream = Stream()
    for step in (11, 12, 13):
        run_step(stream, step, [("product", 40 + step), ("sum", 2)])
    chosen = choose_step([stretch_of(stream)])
    details = {"target": "train.py", "batch_size": 8, "limit_bytes": None, "building": Building(0, 0, 0, None)}
    tide = recorded_tide(*chosen, GraphNames(), **details)
    tide.save(tmp_path / "run.tide")
    again = Tide.load(tmp_path / "run.tide")
    assert as_dict(again.times) == as_dict(tide.times) == {"product": 52.0, "sum": 2.0}
    make_tide().save(tmp_path / "predicted.tide")
    assert Tide.load(tmp_path / "predicted.tide").times is None


def test_times_without_their_nodes_are_refused():
    with pytest.raises(LowtideError, match="1 op with times, and 2 times"):
        make_tide(times=OpTimes(["product"], np.zeros(2, np.float32)))


# -- for a plan ---------------------------------------------------------------------------------------

GRAPH = """
x = _Arg() [1000,1000]
call/dense_1/mul = Mul(x, x) [1000,1000]
call/dense_2/mul = Mul(call/dense_1/mul, x) [1000,1000]
call/softmax = Softmax(call/dense_2/mul) [1000,1000]
"""


@pytest.fixture
def work():
    """Three ops that compute; what the model would say of them is put by hand."""
    made = make_work(GRAPH)
    made.cost_us = [0.0, 100.0, 100.0, 40.0]
    return made


def test_measured_ops_cost_their_time_and_others_in_proportion(work):
    times = measured_times(timed({"call/dense_1/mul": 300.0, "call/dense_2/mul": 500.0, "call/other": 9.0}))
    step = make_tide()
    assert times.costs_of(work, step) == [0.0, 300.0, 500.0, 120.0]
    assert times.notes(step) == ("times measured in a recording of train.py:build",)


def test_one_op_that_the_model_has_wrong_does_not_move_the_proportion(work):
    times = measured_times(timed({"call/dense_1/mul": 200.0, "call/dense_2/mul": 200.0, "call/softmax": 4000.0}))
    work.cost_us[0] = 10.0
    assert times.costs_of(work, make_tide()) == [20.0, 200.0, 200.0, 4000.0]


@pytest.mark.parametrize(
    "names",
    [("call/dense_7/mul", "call/dense_9/mul"), ("StatefulPartitionedCall/call/dense_1/mul", "call/dense_2/mul")],
)
def test_names_may_have_other_numbers_and_be_called_from_outside(work, names):
    times = measured_times(timed(dict(zip(names, (300.0, 500.0), strict=True))))
    assert times.costs_of(work, make_tide())[1:3] == [300.0, 500.0]


def test_another_batch_is_scaled_in_proportion_and_noted(work, tmp_path):
    path = tmp_path / "run.tide"
    timed({"call/dense_1/mul": 300.0, "call/dense_2/mul": 500.0}, batch_size=20).save(path)
    times = measured_times(path)
    step = make_tide(batch_size=5)
    assert times.costs_of(work, step) == [0.0, 75.0, 125.0, 30.0]
    assert times.notes(step) == (f"times measured in {path} with batch 20, taken in proportion for batch 5",)
    # Without a known batch size, times are not scaled.
    assert times.notes(replace(step, batch_size=None)) == (f"times measured in {path}",)


def test_a_recording_of_another_program_is_refused_by_both_names(work):
    times = measured_times(timed({"call/dense_1/mul": 300.0, "other/mul": 500.0}, target="other.py"))
    with pytest.raises(LowtideError) as refused:
        times.costs_of(work, make_tide(target="mine.py:build"))
    line = str(refused.value)
    assert "knows the times of 42% of this step" in line
    assert "other.py" in line
    assert "mine.py:build" in line


def test_a_tide_without_times_is_refused(tmp_path):
    assert measured_times(None) is None
    with pytest.raises(LowtideError, match=r"no times of ops.*given: train\.py:build"):
        measured_times(make_tide())
    make_tide().save(tmp_path / "step.tide")
    with pytest.raises(LowtideError, match=r"given: .*step\.tide"):
        measured_times(tmp_path / "step.tide")
    with pytest.raises(LowtideError, match="cannot read the tide"):
        measured_times(tmp_path / "nowhere.tide")
