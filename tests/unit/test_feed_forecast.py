"""What a pipeline will hold: rules for each stage, in exact numbers, without TensorFlow."""

import pytest

from lowtide.feed.forecast.allocators import ONEDNN
from lowtide.feed.forecast.forecast import forecast
from lowtide.feed.forecast.stage import AUTOTUNE, Element, Rewriting, Stage, rewrite
from lowtide.feed.forecast.stage_memory import hold, stage_name

MEBIBYTE = 1 << 20
PROCESSORS = 4
WITHOUT = Rewriting(fuses=False, parallelizes=False, prefetches=False)


def element(mebibytes, **more):
    """An element that takes exactly this many bytes, with all that is kept beside it."""
    return Element(mebibytes * MEBIBYTE - 200, **more)


def source(mebibytes=1, count=1_000, **more):
    return Stage("Range", element(mebibytes), count=count, **more)


def over(kind, below, mebibytes=None, count="same", call_bytes=0, inner=None, **numbers):
    size = below.element if mebibytes is None else element(mebibytes)
    counted = below.count if count == "same" else count
    return Stage(kind, size, (below,), inner, counted, numbers, call_bytes)


def held(stage):
    """What the last stage holds, in MiB and elements, and what it works with."""
    first = hold(stage, PROCESSORS)[0]
    return round(first.held_bytes / MEBIBYTE, 1), first.held_elements, round(first.working_bytes / MEBIBYTE, 1)


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (over("Shuffle", source(), buffer_size=100), (100, 100, 0)),
        (over("Shuffle", source(count=30), buffer_size=100), (30, 30, 0)),
        (over("Shuffle", source(count=None), buffer_size=100), (100, 100, 0)),
        (over("Cache", source(count=70)), (70, 70, 0)),
        (over("Cache", source(count=70), is_file=1), (0, 0, 0)),
        (over("Cache", source(count=None)), (0, 0, 0)),
        (over("Prefetch", source(), buffer_size=5), (5, 5, 0)),
        (over("Prefetch", source(), buffer_size=AUTOTUNE), (2, 2, 0)),
        (over("Map", source(), 2, call_bytes=5 * MEBIBYTE), (0, 0, 5)),
        (over("ParallelMap", source(), 2, call_bytes=5 * MEBIBYTE, num_parallel_calls=6), (12, 6, 12)),
        (over("ParallelMap", source(), 2, num_parallel_calls=AUTOTUNE), (8, 4, 0)),
        (over("Batch", source(), 8, batch_size=8), (0, 0, 16)),
        (over("Batch", source(), 64, batch_size=64), (0, 0, 64)),
        (over("ParallelBatch", source(), 8, batch_size=8, num_parallel_calls=2), (16, 2, 16)),
        (over("MapAndBatch", source(), 8, call_bytes=MEBIBYTE, batch_size=8, num_parallel_calls=2), (24, 3, 2)),
        (over("MapAndBatch", source(), 2, batch_size=2, num_parallel_calls=64), (34, 17, 0)),
        (over("Window", source(), size=50), (50, 50, 0)),
        (over("Unbatch", source(16), 1, count=16_000), (16, 1, 0)),
        (over("Generator", source(3)), (0, 0, 6)),
        (over("Take", source()), (0, 0, 0)),
    ],
    ids=lambda value: stage_name(value) if isinstance(value, Stage) else "",
)
def test_what_a_stage_holds(stage, expected):
    assert held(stage) == expected


def test_an_interleave_holds_blocks_of_all_that_it_has_opened():
    inner = Stage("TFRecord", element(1), count=100, reader_bytes=2 * MEBIBYTE)
    parallel = over(
        "ParallelInterleave", source(count=40), 1, count=4_000, inner=inner,
        cycle_length=4, block_length=2, num_parallel_calls=2,
    )  # fmt: skip
    whole, opened, _ = hold(parallel, PROCESSORS)
    assert (round(whole.held_bytes / MEBIBYTE), whole.held_elements) == (60, 60)
    assert (opened.times, opened.held_bytes, opened.depth) == (12, 24 * MEBIBYTE, 1)
    assert opened.name == "TFRecord × 12"
    few = over("ParallelInterleave", source(count=3), 1, inner=inner, cycle_length=4, block_length=1)
    assert held(few) == (9, 9, 0)
    one_by_one = over("Interleave", source(count=40), 1, inner=inner, cycle_length=4, block_length=1)
    assert [each.times for each in hold(one_by_one, PROCESSORS)] == [1, 4, 1]


def test_of_consecutive_stages_the_largest_counts():
    parts = tuple(over("Shuffle", source(), buffer_size=size) for size in (30, 50))
    stages = hold(Stage("Concatenate", element(1), parts), PROCESSORS)
    assert round(sum(each.bytes for each in stages) / MEBIBYTE) == 50
    beside = hold(Stage("Zip", element(2), parts), PROCESSORS)
    assert round(sum(each.bytes for each in beside) / MEBIBYTE) == 80


def test_views_are_counted_where_their_memory_is():
    size = 64 * MEBIBYTE
    rows = Stage("TensorSlices", Element(MEBIBYTE, shared_bytes=MEBIBYTE), count=64, constant_bytes=size)
    shuffled = over("Shuffle", rows, buffer_size=50)
    assert [each.held_bytes for each in hold(shuffled, PROCESSORS)] == [50 * 200, 2 * size]


def test_what_tensorflow_makes_of_a_pipeline():
    mapped = over("Map", source(), call_bytes=7)
    batched = over("Batch", mapped, 8, count=125, batch_size=8)
    made = rewrite(batched, Rewriting())
    assert (made.kind, made.numbers, made.count, made.call_bytes) == (
        "MapAndBatch", {"num_parallel_calls": AUTOTUNE, "batch_size": 8}, 125, 7,
    )  # fmt: skip
    assert made.source.kind == "Range"
    assert rewrite(batched, WITHOUT) == batched
    shuffled = over("Options", over("Shuffle", mapped, buffer_size=9))
    kinds = [each.kind for each in rewrite(shuffled, Rewriting()).walk()]
    assert kinds == ["Prefetch", "Shuffle", "ParallelMap", "Range"]
    ready = over("Prefetch", over("Shuffle", mapped, buffer_size=9), buffer_size=3)
    assert [each.kind for each in rewrite(ready, Rewriting()).walk()] == ["Prefetch", "Shuffle", "ParallelMap", "Range"]
    stateful = Stage("Map", element(1), (source(),), count=1_000, is_stateful=True)
    assert rewrite(stateful, Rewriting(prefetches=False)).kind == "Map"
    fused = rewrite(over("Batch", stateful, 8, batch_size=8), Rewriting())
    assert (fused.kind, fused.numbers["num_parallel_calls"]) == ("MapAndBatch", 1)


def test_a_forecast_adds_up():
    pipeline = over(
        "Prefetch", over("Batch", over("Shuffle", source(), buffer_size=100), 8, batch_size=8), buffer_size=2
    )
    predicted = forecast(pipeline, PROCESSORS)
    # A hundred are shuffled, two batches are ready, one is made from its elements, two are with the consumer.
    assert round(predicted.peak_bytes / MEBIBYTE) == 100 + 16 + 16 + 16 + 6
    # All of it may leave a hole of its size in the C library's memory, and none in TensorFlow's own beyond a quarter.
    assert round(predicted.safe_bytes / MEBIBYTE) == 2 * (100 + 16 + 16 + 16) + 16
    own = forecast(pipeline, PROCESSORS, ONEDNN)
    assert round(own.safe_bytes / MEBIBYTE) == 1.25 * (100 + 16 + 16 + 16) + 16
    assert predicted.fits("160MiB")
    assert not predicted.fits("150MiB")
    content = predicted.to_dict()
    assert [each["kind"] for each in content["stages"]] == ["Prefetch", "Batch", "Shuffle", "Range"]
    assert sum(each["bytes"] for each in content["stages"]) + content["taken_bytes"] + (6 << 20) == predicted.peak_bytes
    lines = str(predicted).splitlines()
    assert lines[0].startswith("at the peak 154 MiB")
    assert any(line.startswith("    Shuffle(100)") for line in lines)


def test_large_batches_take_the_place_of_those_that_were_taken():
    large = over("Batch", source(), 64, batch_size=64)
    assert forecast(over("Prefetch", large, buffer_size=1), PROCESSORS).taken_elements == 1
    assert forecast(over("MapAndBatch", source(), 64, batch_size=64), PROCESSORS).taken_elements == 2


def test_constants_in_a_function_take_most_while_a_pipeline_starts():
    baked = Stage("Map", Element(8), (source(0),), baked_bytes=10 * MEBIBYTE)
    predicted = forecast(baked, PROCESSORS)
    assert predicted.peak_bytes == (190 + 6) * MEBIBYTE
    assert "tensor outside of it" in predicted.advice[0].what


def test_unknown_facts_are_stated():
    endless = forecast(over("Cache", source(count=None)), PROCESSORS)
    assert "how many elements it will keep is not known" in endless.notes[1]
    tuned = forecast(over("Prefetch", source(), buffer_size=AUTOTUNE), PROCESSORS)
    assert "sizes it while it runs" in tuned.notes[1]
    assert tuned.safe_bytes > 16 * MEBIBYTE
    odd = Stage("GroupByWindow", element(1), (source(),), note="how many groups are open is not known")
    assert "GroupByWindow: how many groups" in forecast(odd, PROCESSORS).notes[1]


def test_the_bound_has_parts():
    large = over("Prefetch", over("Batch", source(), 64, batch_size=64), buffer_size=2)
    bound = forecast(large, PROCESSORS).bound
    # Two batches are ready, one is gathered and copied while the one before is in use, and the consumer has two. Only
    # the gathered elements are small enough for the C library to keep their holes.
    assert round(bound.held_bytes / MEBIBYTE) == 2 * 64 + 2 * 64 + 2 * 64
    assert round(bound.lost_bytes / MEBIBYTE) == 2 * 64
    assert bound.tuned_bytes == 0
    tuned = forecast(over("Prefetch", source(40), buffer_size=AUTOTUNE), PROCESSORS)
    assert round(tuned.bound.tuned_bytes / MEBIBYTE) == 14 * 40
    assert tuned.safe_bytes == tuned.bound.bytes
    assert tuned.notes[0].startswith("the upper bound: 160 MiB in buffers and in flight, ")


def test_small_elements_may_be_scattered():
    small = Stage("Range", Element(1_000), count=10_000)
    predicted = forecast(over("Shuffle", small, buffer_size=10_000), PROCESSORS)
    # The buffer, two elements of the consumer, and as much in holes; below 256 KiB with both allocators.
    assert predicted.safe_bytes == 2 * 10_002 * 1_200 + (16 << 20)


def test_advice_says_what_it_saves():
    decoded = over("ParallelMap", Stage("TensorSlices", Element(100), count=5_000), 1, num_parallel_calls=2)
    predicted = forecast(over("Prefetch", over("Shuffle", decoded, buffer_size=400), buffer_size=40), PROCESSORS)
    advice = {each.what: round(each.saves_bytes / MEBIBYTE) for each in predicted.advice}
    assert advice == {
        "shuffle before the map, where an element takes 100 B": 400,
        "shuffle among 100 instead of 400": 300,
        "prefetch(2)": 38,
    }
    cached = forecast(over("Cache", source(count=90)), PROCESSORS)
    assert [each.what.split(",")[0] for each in cached.advice] == ["cache to a file"]
    blocks = over(
        "ParallelInterleave", source(0, count=90), 1, inner=source(count=500), cycle_length=10, block_length=16
    )
    assert round(forecast(blocks, PROCESSORS).advice[0].saves_bytes / MEBIBYTE) == 30 * 30
    slices = Stage("TensorSlices", Element(100), count=5_000, constant_bytes=50 * MEBIBYTE)
    assert "lt.feed.arrays" in forecast(slices, PROCESSORS).advice[0].what
