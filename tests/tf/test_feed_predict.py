"""The predicted memory of a pipeline, compared with what it holds while it runs."""

import time

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt
from lowtide.feed.forecast.element_sampling import ElementSamples
from lowtide.feed.forecast.outline import outline

Data = tf.data.Dataset
ROW = 40_000


def rows(count=2_000):
    """Rows that a function makes, which are no views."""
    return Data.range(count).map(lambda number: tf.zeros((ROW // 4,)) + tf.cast(number, tf.float32))


def predicted_stages(dataset):
    """Return the predicted elements of each stage, and the bytes of their contents."""
    return {
        each.stage.kind: (each.held_elements, each.held_elements * each.stage.element.content_bytes)
        for each in lt.feed.predict(dataset).holdings
    }


def live(dataset, least):
    """What the stages of a running pipeline hold once they have filled up."""
    iterator = iter(dataset)
    next(iterator)
    for _ in range(200):
        found = lt.feed.inspect(iterator)
        if found.held_bytes >= least:
            break
        time.sleep(0.02)
    return {stage.name: (stage.held_elements, stage.held_bytes) for stage in found}


def test_buffers_are_as_large_as_was_said():
    dataset = rows().shuffle(300).batch(10).prefetch(7)
    predicted, seen = predicted_stages(dataset), live(dataset, 370 * ROW - ROW)
    assert predicted["Prefetch"] == seen["Prefetch"] == (7, 70 * ROW)
    assert predicted["Shuffle"] == (300, 300 * ROW)
    assert seen["Shuffle"][0] in (299, 300)
    assert set(predicted) == {"Prefetch", "Batch", "Shuffle", "ParallelMap", "Range"}
    # TensorFlow's versions of ops are not part of what a stage is.
    assert {name.removesuffix("V2") for name in seen} == set(predicted)


def test_a_cache_in_memory_holds_all_elements_and_one_in_a_file_none(tmp_path):
    dataset = rows(120).cache().batch(10).prefetch(2)
    assert predicted_stages(dataset)["Cache"] == (120, 120 * ROW)
    assert predicted_stages(rows(120).cache(str(tmp_path / "cache")))["Cache"] == (0, 0)


def test_map_and_batch_become_one_as_they_really_do():
    dataset = rows().batch(10)
    predicted, seen = predicted_stages(dataset), live(dataset, 20 * ROW)
    assert "MapAndBatch" in predicted
    assert "MapAndBatch" in seen
    options = tf.data.Options()
    options.experimental_optimization.map_and_batch_fusion = False
    options.experimental_optimization.inject_prefetch = False
    apart = dataset.with_options(options)
    assert list(predicted_stages(apart)) == ["Batch", "ParallelMap", "Range"]
    assert [name.removesuffix("V2") for name in live(apart, 1)] == ["Batch", "ParallelMap", "Range"]


def test_functions_with_state_stay_one_after_the_other():
    def draw(number):
        return tf.random.uniform((ROW // 4,)) + tf.cast(number, tf.float32)

    dataset = Data.range(100).map(draw).prefetch(3)
    assert "Map" in predicted_stages(dataset)
    assert "Map" in live(dataset, 3 * ROW)


@pytest.mark.parametrize(("cycle", "block"), [(2, 1), (3, 4)])
def test_a_parallel_interleave_holds_its_given_number_of_elements(cycle, block):
    dataset = Data.range(30).interleave(
        lambda number: rows(200), cycle_length=cycle, block_length=block, num_parallel_calls=2
    )
    predicted = predicted_stages(dataset)["ParallelInterleave"]
    seen = live(dataset, predicted[1])
    name = next(name for name in seen if name.startswith("ParallelInterleave"))
    assert seen[name][0] == predicted[0] == 3 * cycle * (2 * block + 1)


def test_records_are_looked_at_and_counted(tmp_path):
    paths = [str(tmp_path / f"{number}.tfrecord") for number in range(3)]
    for path in paths:
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(200):
                writer.write(b"x" * 5_000)
    dataset = tf.data.TFRecordDataset(paths).cache().shuffle(100).batch(8)
    stages = {each.stage.kind: each for each in lt.feed.predict(dataset).holdings}
    cache, shuffle, reader = stages["Cache"], stages["Shuffle"], stages["TFRecord"]
    assert cache.held_elements == pytest.approx(600, rel=0.02)
    assert shuffle.stage.element.content_bytes == pytest.approx(5_024, abs=1)
    assert shuffle.stage.element.is_sampled
    assert reader.stage.reader_bytes == 256 << 10
    assert shuffle.held_bytes == pytest.approx(100 * 5_224, rel=0.01)


def test_looking_at_elements_fills_no_buffer():
    made = []

    def make():
        for number in range(10_000):
            made.append(number)
            yield np.zeros((10 + number % 3,), np.float32)

    dataset = Data.from_generator(make, output_signature=tf.TensorSpec((None,))).shuffle(5_000).padded_batch(4)
    found = lt.feed.predict(dataset)
    assert len(made) < 100
    stages = {each.stage.kind: each for each in found.holdings}
    assert stages["Shuffle"].held_elements == 5_000
    assert 40 <= stages["Shuffle"].stage.element.content_bytes <= 48


def test_batches_of_unknown_size_are_scaled_up():
    def lengths(number):
        return tf.zeros((100 + number % 2,))

    dataset = Data.range(1_000).map(lengths).padded_batch(500).map(lambda some: tf.concat([some, some], 1))
    element = lt.feed.predict(dataset).taken
    assert element.content_bytes == pytest.approx(2 * 500 * 101 * 4, rel=0.02)
    assert element.is_sampled


def test_windows_share_their_elements():
    dataset = rows(1_000).window(50, shift=10).flat_map(lambda window: window.batch(50)).prefetch(1)
    stages = {each.stage.kind: each for each in lt.feed.predict(dataset).holdings}
    assert stages["Window"].held_elements == 50
    assert stages["Prefetch"].stage.element.content_bytes == 50 * ROW
    # The batch is a copy, its elements are those of the window.
    assert stages["Batch"].working_bytes == pytest.approx(50 * ROW, rel=0.05)


def test_groups_are_those_that_elements_come_into():
    sequences = Data.range(1_000).map(lambda number: tf.zeros((10 + 50 * (number % 3),)))
    dataset = sequences.bucket_by_sequence_length(lambda row: tf.shape(row)[0], [50, 100], [32, 16, 8])
    found = lt.feed.predict(dataset)
    groups = next(each for each in found.holdings if each.stage.kind == "GroupByWindow")
    assert groups.held_elements == 32 + 16 + 8
    # The largest batch is that of the middle group.
    assert found.taken.content_bytes == 16 * 60 * 4


def test_arrays_are_counted_where_they_are():
    array = np.zeros((1_000, 160), np.float32)
    stages = {each.stage.kind: each for each in lt.feed.predict(Data.from_tensor_slices(array).shuffle(100)).holdings}
    assert stages["TensorSlices"].held_bytes == 2 * array.nbytes
    # Rows of 640 bytes are views, those of 644 are not.
    assert stages["Shuffle"].held_bytes == 100 * 200
    odd = np.zeros((1_000, 161), np.float32)
    stages = {each.stage.kind: each for each in lt.feed.predict(Data.from_tensor_slices(odd).shuffle(100)).holdings}
    assert stages["Shuffle"].held_bytes == 100 * (644 + 200)


def test_captured_tensors_and_constants_of_a_function():
    table = np.random.default_rng(0).random((300_000,), np.float32)
    tensor = tf.constant(table)
    outside = outline(Data.range(10).map(lambda number: tensor[number]), ElementSamples(4))
    within = outline(Data.range(10).map(lambda number: tf.constant(table)[number]), ElementSamples(4))
    assert (outside.captured_bytes, outside.baked_bytes) == (table.nbytes, 0)
    assert (within.captured_bytes, within.baked_bytes) == (0, table.nbytes)


def test_what_a_call_takes_is_simulated():
    def enlarge(number):
        large = tf.fill((1_000, 1_000), tf.cast(number, tf.float32))
        return tf.reduce_sum(tf.sin(large) * tf.cos(large), 0)

    stage = outline(Data.range(10).map(enlarge), ElementSamples(4))
    assert 8_000_000 <= stage.call_bytes <= 12_100_000
    assert stage.element.content_bytes == 4_000


def test_a_batch_that_is_split_has_the_rows_of_its_parts():
    split = rows(100).batch(20).rebatch(5).map(tf.sin, num_parallel_calls=2).prefetch(3)
    found = lt.feed.predict(split)
    sizes = {each.stage.kind: each.stage.element.content_bytes for each in found.holdings}
    assert (sizes["Prefetch"], sizes["Rebatch"]) == (5 * ROW, 5 * ROW)
    assert not [note for note in found.notes if "unknown" in note]


def test_pipelines_of_every_kind_are_predicted():
    left, right = rows(100), rows(100)
    datasets = [
        Data.zip((left, right)).take(3).skip(1).repeat(2),
        left.concatenate(right).enumerate().filter(lambda number, row: number > 3),
        Data.sample_from_datasets([left, right]).ragged_batch(4),
        left.batch(10).unbatch().ignore_errors(),
        left.scan(0.0, lambda state, row: (state + 1, row)).take_while(lambda row: True),
        left.batch(3).rebatch(4),
        left.group_by_window(lambda row: tf.constant(0, tf.int64), lambda key, some: some.batch(5), window_size=5),
        Data.range(10).shard(2, 0).unique().cache().shuffle(4, reshuffle_each_iteration=False).repeat(),
        Data.from_tensors({"a": tf.zeros((3,)), "b": tf.ragged.constant([[1], [2, 3]])}).repeat(3),
        Data.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []])).batch(2),
        Data.from_tensor_slices(["a", "bb"]).map(tf.strings.length).batch(2, num_parallel_calls=2),
        left.batch(4).prefetch(2).with_options(tf.data.Options()),
        lt.feed.arrays(np.zeros((100, 10), np.float32), batch_size=10, budget="1MiB"),
    ]
    for dataset in datasets:
        found = lt.feed.predict(dataset)
        assert found.peak_bytes >= 6 << 20
        assert str(found)
        assert len(found.holdings) >= 2


def test_an_argument_that_is_not_a_dataset_is_refused():
    with pytest.raises(lt.LowtideError, match=r"give a tf\.data\.Dataset"):
        lt.feed.predict([1, 2, 3])
