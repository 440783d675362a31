"""The address, lifetime and owner of each chunk in recorded windows."""

from dataclasses import replace

import numpy as np
import pytest

from lowtide.run.chunks import RecordedChunk, busiest_allocator, follow
from lowtide.run.record import Window
from lowtide.sources.profiles.xplane import Mark, Profile
from lowtide.tide.owner import Owner
from tests.unit.streams import Stream


def follow_stream(*cuts):
    windows, profiles = zip(*cuts, strict=True)
    return follow(windows, profiles, "cpu")


def lifetimes(stretch):
    return [(chunk.operation, chunk.born, chunk.died) for chunk in stretch.chunks]


def names(stretch):
    return {chunk.operation: chunk.owner.name for chunk in stretch.chunks if chunk.owner is not None}


def assert_adds_up(stretch):
    """The chunks after each event add up to the allocator's bytes in use."""
    for event in range(len(stretch.events) + 1):
        in_use = int(stretch.events.bytes_in_use[event - 1]) if event else stretch.bytes_before
        assert sum(chunk.allocated for chunk in stretch.chunks if chunk.is_alive_at(event)) == in_use


def test_the_first_window_begins_with_nothing():
    stream = Stream()
    first = stream.allocate("a", 1000)
    stream.allocate("b", 300)
    stream.free("a")
    assert stream.allocate("c", 900) == first
    (stretch,) = follow_stream(stream.cut())
    assert stretch.bytes_before == 0
    assert lifetimes(stretch) == [("a", 0, 2), ("b", 1, None), ("c", 3, None)]
    assert [(chunk.requested, chunk.allocated) for chunk in stretch.chunks] == [(1000, 1024), (300, 512), (900, 1024)]
    assert [chunk.operation for chunk in stretch.alive_at_end()] == ["b", "c"]
    assert_adds_up(stretch)


def test_a_chunk_is_there_from_the_event_that_made_it_to_the_one_that_freed_it():
    chunk = RecordedChunk(0, 256, 1, born=3, died=5)
    assert [event for event in range(8) if chunk.is_alive_at(event)] == [4, 5]
    before = RecordedChunk(0, 256, 1, died=0)
    assert [event for event in range(8) if before.is_alive_at(event)] == [0]


def test_a_later_window_begins_in_the_middle():
    stream = Stream()
    stream.allocate("kernel", 1000)
    stream.allocate("freed later", 500)
    stream.allocate("left alone", 700)
    stream.allocate("gone meanwhile", 5000)
    early = stream.cut()
    # Nothing is recorded now.
    stream.free("gone meanwhile")
    stream.allocate("never seen", 3000)
    stream.allocate("slot", 2000)
    stream.allocate("never seen, and freed", 400)
    stream.cut()
    call = stream.begin(11, places=[stream.place("kernel"), stream.place("slot", "optimizer")])
    stream.free("freed later")
    stream.allocate("new", 250)
    stream.free("never seen, and freed")
    stream.end(call)
    _, stretch = follow_stream(early, stream.cut())
    assert stretch.bytes_before == 1024 + 512 + 768 + 3072 + 2048 + 512
    found = {
        (chunk.operation, chunk.owner and chunk.owner.name, chunk.identified): (chunk.allocated, chunk.born, chunk.died)
        for chunk in stretch.chunks
    }
    assert found == {
        ("kernel", "kernel", True): (1024, None, None),
        ("freed later", None, True): (512, None, 0),
        ("left alone", None, True): (768, None, None),
        (None, "slot", False): (2048, None, None),
        (None, None, False): (3072, None, None),
        ("new", None, True): (256, 1, None),
    } | {(None, None, False): found[None, None, False]}
    # Of the two unrecorded buffers, one was freed at an unknown address; the size of the other follows from the totals.
    unknown = [chunk for chunk in stretch.chunks if not chunk.identified and chunk.owner is None]
    assert [(chunk.allocated, chunk.died, chunk.address is None) for chunk in unknown] == [
        (512, 2, False),
        (3072, None, True),
    ]
    assert_adds_up(stretch)


def test_a_buffer_of_another_size_at_an_old_address_is_another_buffer():
    stream = Stream()
    address = stream.allocate("old", 1000)
    early = stream.cut()
    stream.free("old")
    assert stream.allocate("other", 900) == address
    stream.cut()
    stream.free("other")
    _, stretch = follow_stream(early, stream.cut())
    assert [(chunk.operation, chunk.requested, chunk.identified) for chunk in stretch.chunks] == [(None, 900, False)]
    assert_adds_up(stretch)


def test_an_old_chunk_ends_where_the_window_allocates_at_its_address():
    stream = Stream()
    stream.allocate("small", 200)
    address = stream.allocate("old", 1000)
    stream.allocate("wall", 100)
    early = stream.cut()
    stream.free("small")
    stream.free("old")
    stream.allocate("unseen", 5000)
    stream.cut()
    # It reaches from the small one's place into the old one's.
    assert stream.allocate("new", 1200) < address
    _, stretch = follow_stream(early, stream.cut())
    assert [(chunk.operation, chunk.allocated) for chunk in stretch.chunks] == [
        ("wall", 256),
        (None, 5120),
        ("new", 1280),
    ]
    assert_adds_up(stretch)


def test_a_variable_that_moves_is_the_same_in_both_places():
    stream = Stream()
    stream.allocate("first", 1000)
    call = stream.begin(1, places=[stream.place("first", path="kernel")])
    stream.allocate("second", 1000)
    stream.free("first")
    stream.end(call)
    stream.begin(2, places=[stream.place("second", path="kernel")])
    (stretch,) = follow_stream(stream.cut())
    assert names(stretch) == {"first": "kernel", "second": "kernel"}


def test_an_address_that_is_used_again_belongs_to_its_new_owner():
    stream = Stream()
    address = stream.allocate("a", 1000)
    stream.begin(1, places=[stream.place("a", path="kernel")])
    stream.free("a")
    assert stream.allocate("b", 1000) == address
    (stretch,) = follow_stream(stream.cut())
    assert names(stretch) == {"a": "kernel"}


def test_an_argument_may_be_a_variables_own_value():
    stream = Stream()
    stream.allocate("a", 1000)
    stream.allocate("b", 1000)
    weight, argument = stream.place("a", path="kernel"), stream.place("a", "input", path="argument 0")
    stream.begin(1, places=[weight, argument, stream.place("b", "input", path="argument 1")])
    stream.begin(2, places=[stream.place("b", "input", path="argument 2"), stream.place("b", path="bias")])
    (stretch,) = follow_stream(stream.cut())
    assert names(stretch) == {"a": "kernel", "b": "bias"}


def test_an_argument_that_is_a_slice_of_an_array_is_not_the_array():
    stream = Stream()
    stream.allocate("rows", 4000)
    stream.allocate("batch", 4000)
    # The first rows have the address of all rows; the last batch of an epoch may be a part of its chunk.
    first_rows = replace(stream.place("rows", "input", path="argument 0"), shape=(100,), bytes=400)
    batch = replace(stream.place("batch", "input", path="argument 1"), shape=(600,), bytes=2400)
    stream.begin(1, places=[first_rows, batch])
    (stretch,) = follow_stream(stream.cut())
    assert names(stretch) == {"batch": "argument 1"}


def test_a_value_larger_than_a_chunk_is_not_in_it():
    stream = Stream()
    stream.allocate("a", 1000)
    stream.begin(1, places=[replace(stream.place("a"), bytes=4096)])
    (stretch,) = follow_stream(stream.cut())
    assert names(stretch) == {}


@pytest.mark.parametrize(("kind", "was_seen"), [("input", False), ("weights", True)])
def test_an_array_outside_of_the_allocator_is_not_counted(kind, was_seen):
    # NumPy's memory, used where it is.
    array = Owner(name="array", layer=None, kind=kind, dtype="float32", shape=(512,), bytes=2048, address=12345)
    stream = Stream()
    stream.allocate("kernel", 1000)
    stream.begin(1, places=[stream.place("kernel"), *([array] if was_seen else [])])
    early = stream.cut()
    stream.allocate("unseen", 4000)
    stream.cut()
    stream.begin(11, places=[array, stream.place("kernel")])
    stream.allocate("new", 100)
    _, stretch = follow_stream(early, stream.cut())
    assert {chunk.owner.name for chunk in stretch.chunks if chunk.owner} == {"kernel"}
    assert_adds_up(stretch)


def test_named_bytes_never_exceed_the_allocated_bytes():
    stream = Stream()
    stream.allocate("kernel", 1000)
    early = stream.cut()
    far = [Owner(name="far", layer=None, kind="weights", dtype="float32", shape=(225,), bytes=900, address=1 << 20)] * 2
    stream.begin(11, places=[*far, stream.place("kernel")])
    stream.allocate("new", 100)
    _, stretch = follow_stream(early, stream.cut())
    assert_adds_up(stretch)


def test_a_window_without_events():
    stretches = follow_stream(Stream().cut(), Stream().cut())
    assert [(stretch.chunks, stretch.bytes_before) for stretch in stretches] == [([], 0), ([], 0)]


def test_marks_are_placed_between_the_events_by_time():
    stream = Stream()
    call = stream.begin(1)
    stream.allocate("a", 256)
    stream.allocate("b", 256)
    stream.end(call)
    stream.allocate("c", 256)
    (stretch,) = follow_stream(stream.cut())
    assert stretch.marks == {call.begin_mark: 0, call.end_mark: 2}


def test_a_mark_with_another_clock_moves_by_one_event():
    stream = Stream()
    for name in "abc":
        stream.allocate(name, 256)
    window, profile = stream.cut()
    # The order is the allocator's own; the second event was stamped by a clock that is behind.
    late = replace(profile.allocations, time_ps=np.array([3000, 2000, 5000], np.int64))
    marked = Profile(late, (Mark(2500, 2), Mark(4000, 3)))
    (stretch,) = follow([window], [marked], "cpu")
    assert stretch.marks == {2: 0, 3: 2}


def test_only_the_allocator_that_gave_out_most_is_followed():
    small, large = Stream("gpu_host"), Stream("cpu")
    for _ in range(3):
        small.allocate("small", 256)
    large.allocate("large", 4096)
    (_, one), (_, two) = small.cut(), large.cut()
    columns = {}
    for name in one.allocations.__slots__:
        first, second = getattr(one.allocations, name), getattr(two.allocations, name)
        columns[name] = np.concatenate([first, second]) if isinstance(first, np.ndarray) else first + second
    both = Profile(type(one.allocations)(**columns), ())
    assert busiest_allocator([both]) == "cpu"
    assert busiest_allocator([one, two]) == "cpu"
    assert busiest_allocator([]) is None
    (stretch,) = follow([Window("", (), {})], [both], "cpu")
    assert lifetimes(stretch) == [("large", 0, None)]
