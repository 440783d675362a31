"""Peaks of tiny steps, computed by hand: chunks of 256 bytes, step after step."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.program.machine import Machine, use_machine
from lowtide.simulator.bfc import BfcAllocator
from lowtide.simulator.executor import execute
from lowtide.simulator.simulate import simulate
from lowtide.simulator.simulated_process import Residents, SimulatedProcess
from lowtide.simulator.tuning import SAFE_BYTES
from tests.unit.graphs import make_work, tensor

pytestmark = pytest.mark.usefixtures("one_thread")


def test_sizes_are_rounded_to_256_bytes():
    # x 4000 -> 4096, y 40 -> 256, z 1200 -> 1280; all three are alive when z is made.
    found = simulate(make_work("x = _Arg() [1000]\ny = FancyOp(x) [10]\nz = FancyOp(y) [300]"))
    assert found.bytes_before == 4096
    assert found.peak_bytes == 4096 + 256 + 1280
    assert found.held_before.tolist() == [4096]


def test_the_curve_follows_the_events():
    found = simulate(make_work("x = _Arg() [1000]\ny = FancyOp(x) [1000]\nz = FancyOp(y) [300]\nw = Relu(z) [300]"))
    assert found.replay.bytes_in_use.tolist() == [8192, 8192 + 1280, 4096 + 1280, 4096]
    assert found.peak_bytes == max(found.replay.bytes_in_use) == 9472


def test_temporaries_count():
    found = simulate(make_work("x = _Arg() [1000]\ny = PartitionedCall(x) [10] lowtide_workspace_bytes=5000"))
    assert found.peak_bytes == 4096 + 256 + 5120


def test_constants_variables_and_handles_exist_before_the_step():
    text = "v = _Arg() resource\nc = Const() [64]\nr = ReadVariableOp(v) [500]\ny = AddV2(r, c) [500]"
    found = simulate(make_work(text, variables={"v": (500,)}))
    # The variable 2000 -> 2048, its handle 160 -> 256, the constant 256.
    assert found.bytes_before == 2048 + 256 + 256
    assert found.peak_bytes == 2560 + 2048


def test_variables_that_the_step_does_not_use_count():
    work = make_work("x = _Arg() [1000]\ny = FancyOp(x) [1000]")
    assert simulate(work, Residents(extra=(1000, 4))).peak_bytes == 8192 + 1024 + 256


def test_additional_memory_of_a_real_process_counts():
    work = make_work("x = _Arg() [1000]\ny = FancyOp(x) [1000]")
    found = simulate(work, Residents(held_bytes=50_000))
    # 50,000 less the 4,096 of x, in chunks of 256.
    assert found.other_bytes == 46_080
    assert found.bytes_before == 4096 + 46_080
    assert found.peak_bytes == 8192 + 46_080
    assert simulate(work, Residents(held_bytes=4096)).other_bytes == 0


ASSIGNED = """
v = _Arg() resource index=0
x = _Arg() [250] index=1
y = FancyOp(x) [250]
a = AssignVariableOp(v, y)
"""


def test_an_assigned_variable_moves_and_memory_does_not_grow():
    """The variable moves to a new buffer in each step; memory does not grow."""
    found = simulate(make_work(ASSIGNED, variables={"v": (250,)}))
    assert found.bytes_before == 1024 + 256 + 1024
    assert set(found.peaks) == {1024 + 256 + 1024 + 1024}


def test_a_random_initial_value_takes_no_memory_afterwards():
    """Creating it takes three tensors, of which one stays; the others leave a hole that the next buffers reuse."""
    work = make_work("v = _Arg() resource\nr = ReadVariableOp(v) [250]\ny = FancyOp(r) [64]", variables={"v": (250,)})
    drawn = simulate(work, Residents(drawn=frozenset({tensor(work.graph, "v")})))
    assert drawn.bytes_before == simulate(work).bytes_before == 1024 + 256
    assert drawn.peak_bytes == 1024 + 256 + 256


def test_a_chunk_is_not_split_when_the_rest_is_too_small():
    # The first region is 2 MiB; 1.2 MiB of it are asked for, and 0.8 are too little to split off.
    found = simulate(make_work("x = _Arg() [64]\ny = FancyOp(x) [307200]"))
    assert found.peak_bytes == 2 << 20


@pytest.mark.parametrize(("no", "yes"), [(3000, 1000), (1000, 3000)])
def test_the_larger_of_two_data_dependent_branches_is_returned(no, yes):
    text = f"""
    x = _Arg() [64]
    p = _Arg() bool[]
    s = Switch(x, p) [64] [64]
    no = FancyOp(s) [{no}]
    yes = FancyOp(s:1) [{yes}]
    """
    found = simulate(make_work(text))
    assert found.peak_bytes == 256 + 256 + 12032
    assert found.stream.guesses == {2}


def survives(work, limit, steps):
    """Whether a process with a hard limit runs some steps, each replayed by hand."""
    found = simulate(work)
    allocator = BfcAllocator(limit)
    allocator.free(allocator.allocate(1))
    stream = found.stream
    addresses = [None] * len(stream.sizes)
    for buffer in stream.before:
        addresses[buffer] = allocator.allocate(stream.sizes[buffer])
    for _ in range(steps):
        addresses = allocator.replay(stream.sizes, stream.events, addresses).addresses
        for old, new in stream.renewed.items():
            addresses[old], addresses[new] = addresses[new], None
    return allocator.peak_bytes_in_use <= limit


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 2_000_000), min_size=1, max_size=8), st.integers(1, 3))
def test_the_safe_bound_is_at_least_the_peak_and_is_enough(sizes, threads):
    use_machine(Machine(threads, threads, 32 << 10, 256 << 10, 2 << 20))
    lines = ["x = _Arg() [100]"] + [f"a{i} = FancyOp(x) [{size}]" for i, size in enumerate(sizes)]
    lines += [f"b{i} = AddV2(a{i}, a{(i + 1) % len(sizes)}) [{size}]" for i, size in enumerate(sizes)]
    work = make_work("\n".join(lines))
    found = simulate(work)
    assert found.safe_bytes >= found.peak_bytes
    assert max(found.peaks) >= found.peak_bytes >= min(found.peaks)
    assert survives(work, found.safe_bytes, steps=4)


def test_of_concurrent_steps_the_highest_counts():
    text = "x = _Arg() [1000]\n" + "\n".join(
        f"a{i} = FancyOp(x) [{1000 * i + 1}]\nb{i} = FancyOp(a{i}) [{300 * i + 9}]" for i in range(9)
    )
    use_machine(Machine(2, 2, 32 << 10, 256 << 10, 2 << 20))
    alone, together = simulate(make_work(text)), simulate(make_work(text), together=4)
    assert min(alone.peaks) < max(alone.peaks), "steps that are all alike show nothing"
    assert together.peak_bytes > alone.peak_bytes
    assert max(together.peaks) == max(alone.peaks)


def test_the_same_program_gives_the_same_result():
    use_machine(Machine(3, 3, 32 << 10, 256 << 10, 2 << 20))
    text = "x = _Arg() [1000]\n" + "\n".join(
        f"a{i} = FancyOp(x) [{1000 * i + 1}]\nb{i} = FancyOp(a{i}) [9]" for i in range(9)
    )
    first, second = simulate(make_work(text)), simulate(make_work(text))
    assert first.peaks == second.peaks
    assert (first.peak_bytes, first.safe_bytes) == (second.peak_bytes, second.safe_bytes)
    assert first.stream == second.stream


KEPT_APART = """
v = _Arg() resource index=0
x = _Arg() [64] index=1
b = FancyOp(x) [524288]
c = FancyOp(b) [64]
a = AssignVariableOp(v, c)
d = FancyOp(c) [786432]
e = FancyOp(d) [1048576]
"""


def test_a_planned_step_survives_its_bound_among_small_tensors_that_no_graph_contains():
    work = make_work(KEPT_APART, variables={"v": (64,)})
    bound = simulate(work, in_order=True).safe_bytes
    stream = simulate(work).stream
    for seed in range(30):
        process = SimulatedProcess(stream, Residents(), bound, random.Random(seed), bound)
        for _ in range(20):
            process.step_without_curve(stream)
        assert process.allocator.peak_bytes_in_use <= bound


def test_small_allocations_are_between_the_buffers_and_are_not_reported():
    work = make_work("x = _Arg() [1000]\ny = FancyOp(x) [10]")
    stream = simulate(work).stream
    counts = {
        (SimulatedProcess(stream, Residents(), None, random.Random(seed)).allocator.bytes_in_use - 4096)
        for seed in range(40)
    }
    # One lasting buffer: none, one or two small allocations of 256 bytes.
    assert counts == {0, 256, 512}
    assert simulate(work, in_order=True).bytes_before == 4096


def test_a_planned_step_is_in_one_region():
    """Three tensors of 5 MiB, alive together: in regions of 8, 8 and 16 they take 8, 8 and 5, in one 5, 5 and 6."""
    text = "x = _Arg() [64]\n" + "".join(f"a{i} = FancyOp(x) [1310720]\n" for i in range(3))
    work = make_work(text + "b = FancyOp(a0, a1, a2) [64]")
    mebibyte = 1 << 20
    assert simulate(work).peak_bytes == 21 * mebibyte + 256 + 256
    assert simulate(work, in_order=True).peak_bytes == 16 * mebibyte + 256 + 256


def test_a_larger_limit_may_take_more_and_the_promise_is_for_the_budget():
    """Two tensors take 12 MiB each, and the third one the rest of the limit, which is too small to split."""
    text = "x = _Arg() [64]\n" + "".join(f"a{i} = FancyOp(x) [3145728]\n" for i in range(3))
    work = make_work(text + "b = FancyOp(a0, a1, a2) [64]")
    alone = simulate(work, in_order=True).safe_bytes
    within = simulate(work, in_order=True, budget_bytes=44 << 20).safe_bytes
    # All but the first region of 2 MiB, which contains x, the result, and at most two small allocations.
    assert within == (42 << 20) + 2 * 256 + 2 * 256 + SAFE_BYTES
    assert alone < 40 << 20


def test_a_planned_steps_constants_come_after_its_arena():
    """A function creates its constants in its first call, so they are in the arena, and split its free space."""
    work = make_work("x = _Arg() [262144]\nc = Const() [1310720]\ny = AddV2(x, x) [262144]\nr = _Retval(y)")
    stream = execute(work, threads=1)
    assert [stream.sizes[buffer] for buffer in stream.before[stream.first_constant :]] == [5 << 20]
    plain = SimulatedProcess(stream, Residents())
    # The constant of 5 MiB fetched the next region, of 8 MiB, for itself.
    assert [region.size_bytes >> 20 for region in plain.allocator.regions] == [2, 8]
    planned = SimulatedProcess(stream, Residents(), arena_bytes=40 << 20)
    assert [region.size_bytes >> 20 for region in planned.allocator.regions] == [2, 64]
    address = planned.addresses[stream.before[stream.first_constant]]
    assert max(planned.allocator.regions, key=lambda region: region.size_bytes).address == address
