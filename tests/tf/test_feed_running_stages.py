"""A running pipeline: what each of its stages holds."""

import re
import time

import numpy as np
import pytest
import tensorflow as tf

import lowtide as lt

ROW = 4_000


def settled(iterator, least):
    """What is held once the stages have filled up."""
    for _ in range(100):
        found = lt.feed.inspect(iterator)
        if found.held_bytes >= least:
            break
        time.sleep(0.05)
    return found


def test_every_stage_is_named_with_what_it_holds():
    rows = np.zeros((1_000, ROW // 4), np.float32)
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(100).batch(10).prefetch(4)
    iterator = iter(data)
    next(iterator)
    found = settled(iterator, 140 * ROW - 1)
    held = {stage.name: (stage.held_bytes, stage.held_elements) for stage in found}
    assert held["Prefetch"] == (4 * 10 * ROW, 4)
    # The one that was drawn last is on its way.
    assert held["Shuffle"] in ((100 * ROW, 100), (99 * ROW, 99))
    assert [stage.name for stage in found] == ["Prefetch", "Batch", "Shuffle", "TensorSlice"]
    assert [stage.depth for stage in found] == [0, 1, 2, 3]
    assert "Shuffle" in str(found)
    assert str(found).splitlines()[-1].startswith("all")


def test_our_own_pipelines_can_be_looked_at_too():
    data = lt.feed.arrays(np.zeros((100, 10), np.float32), batch_size=10, budget="1MiB")
    with pytest.raises(lt.LowtideError, match=r"options.autotune.enabled = True") as refused:
        lt.feed.inspect(iter(data))
    assert not re.search(r"\{\{|\[Op:", str(refused.value))
    options = tf.data.Options()
    options.autotune.enabled = True
    iterator = iter(data.with_options(options))
    next(iterator)
    assert any(stage.name == "Prefetch" for stage in settled(iterator, 400))


def test_an_argument_that_is_not_an_iterator_is_refused():
    with pytest.raises(lt.LowtideError, match=r"give iter\(dataset\)"):
        lt.feed.inspect(tf.data.Dataset.range(3))
