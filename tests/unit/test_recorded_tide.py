"""The tide of a recorded step: which events are a step, its curve, its rows, and what it needs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.run.chunks import follow
from lowtide.run.graph_names import GraphNames
from lowtide.run.recorded_tide import (
    RecordedStep,
    choose_step,
    recorded_tide,
    smallest_limit,
    step_until,
    steps_of,
)
from lowtide.simulator.bfc import BfcAllocator, OutOfMemory
from lowtide.tide.columns import Building
from tests.unit.streams import Stream


def stretch_of(stream):
    window, profile = stream.cut()
    return follow([window], [profile], "cpu")[0]


def tide_of(stretch, step, steps=None, names=None, **more):
    details = {"target": "train.py", "batch_size": 8, "limit_bytes": None, "building": Building(0, 0, 0, None)}
    return recorded_tide(stretch, step, steps or [step], names or GraphNames(), **(details | more))


def run_step(stream, step, peak, function="step", operation=None):
    call = stream.begin(step, function)
    stream.allocate("activation", peak, operation)
    stream.free("activation")
    stream.end(call)


def test_a_step_lasts_until_the_next_begins():
    stream = Stream()
    stream.allocate("kernel", 1024)
    run_step(stream, 1, 1000)
    stream.allocate("between", 5000)
    stream.free("between")
    run_step(stream, 2, 2000)
    stretch = stretch_of(stream)
    assert steps_of(stretch) == [
        RecordedStep(1, 1, 5, 1024 + 5120, ("step",)),
        RecordedStep(2, 5, 7, 1024 + 2048, ("step",)),
    ]


def test_several_calls_make_one_step():
    stream = Stream()
    for step in (1, 2):
        run_step(stream, step, 1000, "critic")
        run_step(stream, step, 3000, "generator")
        run_step(stream, step, 500, "critic")
    assert steps_of(stretch_of(stream)) == [
        RecordedStep(1, 0, 6, 3072, ("critic", "generator")),
        RecordedStep(2, 6, 12, 3072, ("critic", "generator")),
    ]


def test_a_call_that_raised_is_not_a_step():
    stream = Stream()
    run_step(stream, 1, 1000)
    stream.begin(2)
    stream.allocate("half", 800)
    stream.free("half")
    run_step(stream, 3, 1000)
    assert [step.step for step in steps_of(stretch_of(stream))] == [1, 3]


def test_a_step_of_which_one_call_raised_is_none():
    stream = Stream()
    run_step(stream, 1, 1000, "critic")
    stream.begin(1, "generator")
    run_step(stream, 2, 1000, "critic")
    assert [step.step for step in steps_of(stretch_of(stream))] == [2]


def test_a_window_that_is_cut_off_ends_with_the_last_whole_step():
    stream = Stream()
    run_step(stream, 1, 1000)
    stream.begin(2)
    stream.allocate("half", 800)
    stretch = stretch_of(stream)
    assert [(step.step, step.end) for step in steps_of(stretch)] == [(1, 2)]
    assert step_until(stretch, 3) == RecordedStep(2, 2, 3, 1024, ("step",))
    assert step_until(stretch, 1) == RecordedStep(1, 0, 1, 1024, ("step",))


def test_before_the_first_call_no_step_was_running():
    stream = Stream()
    stream.allocate("kernel", 1024)
    run_step(stream, 1, 1000)
    assert step_until(stretch_of(stream), 0) is None


def test_a_call_whose_mark_was_lost_is_skipped():
    stream = Stream()
    run_step(stream, 1, 1000)
    run_step(stream, 2, 1000)
    stream.marks = stream.marks[2:]
    assert [step.step for step in steps_of(stretch_of(stream))] == [2]


def test_steps_of_two_threads_last_to_their_own_ends():
    stream = Stream()
    first = stream.begin(1)
    second = stream.begin(2)
    stream.allocate("one", 1000)
    stream.free("one")
    stream.end(first)
    stream.allocate("two", 3000)
    stream.free("two")
    stream.end(second)
    assert [(step.first, step.end, step.peak_bytes) for step in steps_of(stretch_of(stream))] == [
        (0, 2, 1024),
        (0, 4, 3072),
    ]


def test_a_step_that_allocates_nothing_peaks_at_what_was_there():
    stream = Stream()
    stream.allocate("kernel", 1024)
    stream.end(stream.begin(1))
    stream.end(stream.begin(2))
    assert [step.peak_bytes for step in steps_of(stretch_of(stream))] == [1024, 1024]


def test_the_middle_peak_of_the_last_window_is_chosen():
    stream = Stream()
    run_step(stream, 1, 9000)
    cuts = [stream.cut()]
    for step, size in ((11, 1000), (12, 4000), (13, 2000), (14, 3000)):
        # No op occurs in two steps, so nothing shows that their shapes differ.
        run_step(stream, step, size, operation=f"op_{step}")
    cuts.append(stream.cut())
    # In the last one no step came to its end.
    stream.begin(20)
    stream.allocate("half", 500)
    cuts.append(stream.cut())
    windows, profiles = zip(*cuts, strict=True)
    stretches = follow(windows, profiles, "cpu")
    stretch, step, steps = choose_step(stretches)
    assert stretch is stretches[1]
    assert (step.step, [each.step for each in steps]) == (14, [11, 12, 13, 14])
    assert choose_step(stretches[:1])[1].step == 1
    assert choose_step(stretches[2:]) is None


def test_the_largest_of_steps_with_different_shapes_are_chosen():
    stream = Stream()
    for step, size in ((11, 4000), (12, 4000), (13, 400), (14, 400), (15, 400)):
        run_step(stream, step, size)
    stretch, step, steps = choose_step([stretch_of(stream)])
    assert (step.step, len(steps)) == (12, 5)
    (note,) = tide_of(stretch, step, steps).notes
    assert note.startswith("5 steps were recorded: 2 with the shapes of this one, 3 with other shapes")
    assert note.endswith("with peaks of 512 B")


def test_a_window_without_events_is_not_chosen():
    stream = Stream()
    stream.end(stream.begin(1))
    assert choose_step([stretch_of(stream)]) is None


@pytest.fixture
def tide():
    stream = Stream()
    stream.allocate("kernel", 1000)
    stream.allocate("kept from before", 300)
    call = stream.begin(1, places=[stream.place("kernel", layer="dense")])
    stream.allocate("dense/product", 2000)
    stream.allocate("dense/borrowed", 600, "dense/product", region="temp")
    stream.free("dense/borrowed")
    stream.free("kept from before")
    stream.allocate("stays", 100)
    stream.free("dense/product")
    stream.end(call)
    stretch = stretch_of(stream)
    (step,) = steps_of(stretch)
    names = GraphNames(layers=frozenset({"dense"}), source_of=lambda name: f"train.py:{len(name)}")
    return tide_of(stretch, step, names=names, limit_bytes=1 << 20, notes=("a note",))


def test_the_curve_begins_before_the_step(tide):
    assert tide.curve.bytes_in_use.tolist() == [1536, 3584, 4352, 3584, 3072, 3328, 1280]
    assert [tide.curve.nodes[node] for node in tide.curve.node[1:]] == [
        "dense/product",
        "dense/product",
        "unnamed",
        "unnamed",
        "stays",
        "unnamed",
    ]
    assert (tide.peak_bytes, tide.peak_event) == (4352, 2)


def test_rows_have_lifetimes_names_and_addresses(tide):
    rows = tide.buffers
    lifetimes = {
        (name, rows.kind_of(row)): (int(rows.born[row]), int(rows.died[row]), int(rows.requested[row]))
        for row, name in enumerate(rows.name)
    }
    assert lifetimes == {
        ("kernel", "weights"): (0, 7, 1000),
        ("kept from before:0", "other"): (0, 4, 300),
        ("dense/product:0", "activations"): (1, 6, 2000),
        ("dense/product", "workspace"): (2, 3, 600),
        ("stays:0", "other"): (5, 7, 100),
    }
    # From the lowest address on: the freed 512 bytes are used again.
    assert rows.address.tolist() == [0, 1024, 1536, 3584, 1024]


def test_lines_are_looked_up_for_what_is_there_at_the_peak(tide):
    sources = dict(zip(tide.buffers.name, tide.buffers.source, strict=True))
    assert sources["dense/product:0"] == f"train.py:{len('dense/product')}"
    assert sources["stays:0"] is None


def test_the_facts_of_a_recording(tide):
    assert tide.method == "recorded"
    assert (tide.recording.allocator, tide.recording.limit_bytes, tide.recording.step) == ("cpu", 1 << 20, 1)
    assert [(peak.step, peak.peak_bytes) for peak in tide.recording.steps] == [(1, 4352)]
    assert tide.recording.fragmentation == 0.25
    assert tide.notes == ("a note",)


def test_buffers_with_unknown_addresses_are_above_all_others():
    stream = Stream()
    stream.allocate("unseen", 3000)
    stream.cut()
    run_step(stream, 1, 500)
    stretch = stretch_of(stream)
    tide = tide_of(stretch, steps_of(stretch)[0])
    assert tide.buffers.name == ["from before the recording", "activation:0"]
    assert tide.buffers.allocated.tolist() == [3072, 512]
    assert tide.buffers.address.tolist() == [512, 0]


Action = tuple[str, int]
# Sizes around the granule, around the first region, and between; freed are the oldest, the newest and those between.
actions = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(1, 5000) | st.integers(1, 3 << 20)),
        st.tuples(st.just("free"), st.integers(0, 1 << 16)),
        st.tuples(st.just("step"), st.just(0)),
        st.tuples(st.just("deaf"), st.integers(0, 5)),
    ),
    max_size=60,
)


def play(script: list[Action]):
    """A run in which the given number of actions between windows is not recorded."""
    stream, alive, cuts = Stream(), [], []
    deaf, number, call, step = 0, 0, None, 0
    for action, value in script:
        if action == "allocate":
            alive.append(f"chunk {number}")
            stream.allocate(alive[-1], value)
            number += 1
        elif action == "free" and alive:
            stream.free(alive.pop(value % len(alive)))
        elif action == "step" and not deaf:
            if call is not None:
                stream.end(call)
            step += 1
            places = [stream.place(name, "weights" if index % 3 else "input") for index, name in enumerate(alive[::2])]
            call = stream.begin(step, places=places)
        elif action == "deaf" and not deaf and value:
            if call is not None:
                stream.end(call)
            cuts.append(stream.cut())
            deaf, call = value, None
            continue
        if deaf:
            deaf -= 1
            if not deaf:
                stream.cut()
    if not deaf:
        if call is not None:
            stream.end(call)
        cuts.append(stream.cut())
    windows, profiles = zip(*cuts, strict=True)
    return follow(windows, profiles, "cpu")


@given(actions)
@settings(max_examples=200, deadline=None)
def test_rows_add_up_to_the_curve_at_every_event(script):
    for stretch in play(script):
        for step in steps_of(stretch):
            if not len(stretch.events):
                continue
            tide = tide_of(stretch, step)
            rows = tide.buffers
            assert tide.peak_bytes == step.peak_bytes == tide.curve.bytes_in_use.max()
            for event, in_use in enumerate(tide.curve.bytes_in_use.tolist()):
                alive = (rows.born <= event) & (event < rows.died)
                assert rows.allocated[alive].sum() == in_use


def fits(script, limit):
    """Whether a run of allocations and frees gets through under a limit, in the model of the allocator."""
    memory, held = BfcAllocator(limit), []
    try:
        for action, value in script:
            if action == "allocate":
                held.append(memory.allocate(value))
            elif held:
                memory.free(held.pop(value % len(held)))
    except OutOfMemory:
        return False
    return True


@given(st.lists(st.one_of(st.tuples(st.just("allocate"), st.integers(1, 3 << 20)),
                          st.tuples(st.just("free"), st.integers(0, 1 << 16))), min_size=1, max_size=40))  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_the_smallest_limit_is_enough_and_less_than_the_peak_is_not(script):
    stream, alive = Stream(), []
    call = stream.begin(1)
    for number, (action, value) in enumerate(script):
        if action == "allocate":
            alive.append(f"chunk {number}")
            stream.allocate(alive[-1], value)
        elif alive:
            stream.free(alive.pop(value % len(alive)))
    stream.end(call)
    stretch = stretch_of(stream)
    if not len(stretch.events):
        return
    (step,) = steps_of(stretch)
    limit = smallest_limit(stretch.chunks, step)
    assert limit >= step.peak_bytes
    assert fits(script, limit)
    requested = max_requested(script)
    assert not fits(script, requested * 9 // 10)


def max_requested(script):
    """The most that is asked for at once; no limit below it is enough."""
    now, most, held = 0, 0, []
    for action, value in script:
        if action == "allocate":
            held.append(value)
        elif held:
            held.pop(value % len(held))
        now = sum(held)
        most = max(most, now)
    return most


def test_memory_from_before_the_step_is_in_the_limit():
    stream = Stream()
    stream.allocate("kernel", 8 << 20)
    run_step(stream, 1, 1 << 20)
    stretch = stretch_of(stream)
    (step,) = steps_of(stretch)
    limit = smallest_limit(stretch.chunks, step)
    assert 9 << 20 <= limit < 10 << 20
    memory = BfcAllocator(limit)
    memory.allocate(8 << 20)
    memory.allocate(1 << 20)
    with pytest.raises(OutOfMemory):
        memory.allocate(2 << 20)
