"""The address space: exact numbers for tiny tides, and properties of every stream of the allocator."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.simulator.bfc import BfcAllocator, place_below
from lowtide.tide.address_space import Extent, Pinning, free_space, occupancy_at, pinnings_at, spans_of
from lowtide.tide.columns import Buffers, Building, Curve, Recording, StepPeak
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide
from tests.unit.streams import place_above


def placed(*rows: tuple[int, int, int, int], events: int) -> Tide:
    """Return a recorded tide of buffers given as address, bytes, born and died."""
    address, size, born, died = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    count = len(rows)
    curve = np.array([size[(born <= event) & (event < died)].sum() for event in range(events)], np.int64)
    buffers = Buffers(
        name=[f"tensor_{row}:0" for row in range(count)],
        op=["Op"] * count,
        layer=[f"layer_{row}" for row in range(count)],
        kind=np.arange(count).astype(np.uint8) % np.uint8(len(KINDS)),
        dtype=["uint8"] * count,
        shape=[None] * count,
        requested=size,
        allocated=size,
        born=born.astype(np.int32),
        died=died.astype(np.int32),
        source=[None] * count,
        address=address,
    )
    peak = int(curve.max())
    nodes = Curve(curve, np.zeros(events, np.int32), ["node"])
    recording = Recording("cpu", None, 1, (StepPeak(1, peak),), 0.0)
    return Tide("t", "recorded", None, peak, peak, buffers, nodes, Building(0, 0, 0, None), recording=recording)


def test_used_and_free_extents_at_each_event(recorded_tide):
    assert spans_of(recorded_tide) == (Extent(0, 8192), Extent(2**20, 1024))
    before = occupancy_at(recorded_tide, 0)
    assert before.used == (Extent(4096, 2048), Extent(6656, 512), Extent(2**20, 1024))
    assert before.holes == (Extent(0, 4096), Extent(6144, 512), Extent(7168, 1024))
    assert (before.free_bytes, before.largest_hole_bytes) == (5632, 4096)
    assert before.fragmentation == pytest.approx(1 - 4096 / 5632)
    peak = occupancy_at(recorded_tide, recorded_tide.peak_event)
    assert peak.used == (Extent(0, 6144), Extent(6656, 1536), Extent(2**20, 1024))
    assert peak.holes == (Extent(6144, 512),)
    assert peak.fragmentation == 0


def test_free_space_over_the_step(recorded_tide):
    free = free_space(recorded_tide)
    assert free.free_bytes.tolist() == [5632, 1536, 1024, 1536, 512, 4608, 5632]
    assert free.largest_hole_bytes.tolist() == [4096, 1024, 1024, 1024, 512, 4096, 4096]
    assert free.fragmentation[2] == 0
    assert free.fragmentation[1] == pytest.approx(1 / 3)


def test_where_nothing_is_free_nothing_is_fragmented():
    tide = placed((0, 512, 0, 2), events=2)
    assert free_space(tide).fragmentation.tolist() == [0, 0]
    assert occupancy_at(tide, 0).fragmentation == 0


@pytest.mark.parametrize(
    ("gap", "spans", "free"),
    [
        # The rest of a chunk: nothing else is so near, and a multiple of 256 away.
        (256, (Extent(0, 1280),), 256),
        (3840, (Extent(0, 4864),), 3840),
        # Two mapped regions are a page apart; two on the heap have a header between them.
        (4096, (Extent(0, 512), Extent(4608, 512)), 0),
        (64, (Extent(0, 512), Extent(576, 512)), 0),
        (2**40, (Extent(0, 512), Extent(2**40 + 512, 512)), 0),
        (0, (Extent(0, 1024),), 0),
    ],
)
def test_a_gap_that_no_buffer_ever_covers_is_free_only_if_it_must_be(gap, spans, free):
    tide = placed((0, 512, 0, 1), (512 + gap, 512, 0, 1), events=1)
    assert spans_of(tide) == spans
    assert occupancy_at(tide, 0).free_bytes == free


def test_the_small_buffer_between_two_holes_is_named():
    # Before the second event large buffers lay on both sides of the two small ones in the middle.
    tide = placed(
        (0, 65536, 0, 1), (65536, 256, 0, 3), (65792, 512, 0, 2), (66304, 32768, 0, 1), (99072, 4096, 0, 3), events=3
    )
    assert pinnings_at(tide, 0) == ()
    assert pinnings_at(tide, 1) == (Pinning("tensor_1:0", "layer_1", 768, 65536 + 32768, 2, 1),)
    assert pinnings_at(tide, 2) == (Pinning("tensor_1:0", "layer_1", 256, 65536 + 33280, 1, 1),)
    assert pinnings_at(tide, 1, count=0) == ()


def test_a_buffer_larger_than_a_neighbouring_hole_does_not_pin(recorded_tide):
    # At the end velocity (2048) is between holes of 4096 and 512; x (512) between 512 and 1024.
    assert pinnings_at(recorded_tide, 6) == (Pinning("x:0", None, 512, 1536, 1, 2),)


def test_the_pinnings_that_lose_most_come_first():
    # Holes of 1024, 2048 and 4096 bytes, with 256 bytes between each two of them.
    tide = placed(
        (0, 1024, 0, 1), (1024, 256, 0, 2), (1280, 2048, 0, 1), (3328, 256, 0, 2), (3584, 4096, 0, 1), events=2
    )
    assert [(row.name, row.hole_bytes) for row in pinnings_at(tide, 1)] == [("tensor_3:0", 6144), ("tensor_1:0", 3072)]
    assert [row.name for row in pinnings_at(tide, 1, count=1)] == ["tensor_3:0"]


def test_buffers_of_no_bytes_or_no_time_take_no_space():
    tide = placed((0, 256, 0, 2), (2**30, 0, 0, 2), (2**31, 256, 1, 1), events=2)
    assert spans_of(tide) == (Extent(0, 256),)
    assert free_space(tide).free_bytes.tolist() == [0, 0]
    assert spans_of(placed((0, 0, 0, 1), events=1)) == ()


def test_a_chunk_may_be_reused_in_the_event_that_frees_it():
    tide = placed((0, 512, 0, 1), (0, 256, 1, 2), events=2)
    assert free_space(tide).free_bytes.tolist() == [0, 256]


def test_buffers_that_overlap_are_counted_once():
    tide = placed((0, 512, 0, 2), (256, 512, 0, 1), (1024, 512, 0, 2), events=2)
    assert free_space(tide).free_bytes[0] == occupancy_at(tide, 0).free_bytes == 256


def test_a_predicted_tide_has_no_addresses(tide):
    for question in (spans_of, free_space, lambda tide: occupancy_at(tide, 0), lambda tide: pinnings_at(tide, 0)):
        with pytest.raises(LowtideError, match=r"no addresses.*lowtide run"):
            question(tide)


@st.composite
def allocated(draw) -> Tide:
    """Return a tide as the allocator's model places it: requests and frees, one event each."""
    allocator = BfcAllocator(place_region=draw(st.sampled_from([place_below, place_above])))
    alive: dict[int, tuple[int, int]] = {}
    rows = []
    event = 0
    for size, frees in draw(st.lists(st.tuples(st.integers(1, 3 << 20), st.integers(0, 2)), min_size=1, max_size=40)):
        address = allocator.allocate(size)
        alive[address] = (allocator.chunk_bytes(address), event)
        for _ in range(min(frees, len(alive))):
            event += 1
            freed = draw(st.sampled_from(sorted(alive)))
            rows.append((freed, *alive.pop(freed), event))
            allocator.free(freed)
        event += 1
    rows += [(address, size, born, event) for address, (size, born) in alive.items()]
    lowest = min(row[0] for row in rows)
    return placed(*[(address - lowest, size, born, died) for address, size, born, died in rows], events=event)


@settings(max_examples=60, deadline=None)
@given(allocated())
def test_used_and_holes_make_up_the_space_at_every_event(tide):
    spans = spans_of(tide)
    free = free_space(tide)
    for event in range(len(tide.curve)):
        space = occupancy_at(tide, event)
        pieces = sorted((*space.used, *space.holes), key=lambda extent: extent.start)
        assert all(one.end <= other.start for one, other in pairwise(pieces))
        assert sum(piece.bytes for piece in pieces) == sum(span.bytes for span in spans)
        # No two buffers that are alive at once overlap, so nothing is counted twice or lost.
        assert sum(extent.bytes for extent in space.used) == tide.curve.bytes_in_use[event]
        assert (space.free_bytes, space.largest_hole_bytes) == (
            free.free_bytes[event],
            free.largest_hole_bytes[event],
        )
        assert free.fragmentation[event] == pytest.approx(space.fragmentation)
        for pinning in pinnings_at(tide, event):
            assert 2 * pinning.bytes <= pinning.hole_bytes <= space.free_bytes
