import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.tide import explain
from lowtide.tide.downsample import sample_events
from lowtide.tide.tide import Tide
from tests.unit.archives import edit_header


def test_the_peak_is_the_highest_event_and_its_position(tide):
    assert tide.peak_event == 4
    assert tide.peak_node == "gradient_tape/MatMul"
    assert str(tide.peak_place) == "gradient of dense (MatMul)"
    # An eager op outside of any layer.
    # An eager op outside of layers has no name but its type.
    eager = explain.ProgramPoint(3, "gradient_tape/Mul", "Mul", None, backward=True)
    assert str(eager) == "Mul of the backward pass"
    assert str(replace(eager, node="Mul", backward=False)) == "Mul"
    loss = replace(eager, node="StatefulPartitionedCall/gradient_tape/loss/Neg", op="Neg")
    assert str(loss) == "gradient of loss/Neg (Neg)"
    assert str(replace(eager, node="StatefulPartitionedCall/adam/Cast_20", op="Cast")) == "adam/Cast_20 (Cast)"


def test_breakdown_adds_up_to_the_curve_at_the_peak(tide):
    assert tide.breakdown() == {
        "weights": 1000,
        "optimizer": 2000,
        "gradients": 1000,
        "activations": 4000,
        "workspace": 0,
        "input": 500,
        "constants": 0,
        "other": 0,
        "outside": 0,
        "slack": 24 + 48 + 12 + 96 + 24,
    }
    assert sum(tide.breakdown().values()) == 8704


def test_top_lists_the_largest_of_those_alive_at_the_peak(tide):
    assert [(row.name, row.bytes) for row in tide.top(3)] == [
        ("dense/Relu:0", 4096),
        ("adam/dense_kernel_velocity:0", 2048),
        ("dense/kernel:0", 1024),
    ]
    first = tide.top(1)[0]
    assert (first.layer, first.op, first.kind, first.shape, first.source) == (
        "dense",
        "Relu",
        "activations",
        (100, 10),
        "train.py:7",
    )
    # The workspace is gone by then, so only five are alive.
    assert len(tide.top(100)) == tide.alive_at_peak == 5


def test_by_layer_adds_up_what_each_layer_holds(tide):
    dense, rest = tide.by_layer()
    assert (dense.layer, dense.bytes, dense.buffers) == ("dense", 8192, 4)
    assert dense.by_kind == {"activations": 4096, "optimizer": 2048, "weights": 1024, "gradients": 1024}
    assert (rest.layer, rest.bytes) == (None, 512)


def test_a_budget_is_compared_with_the_safe_bound(tide):
    assert tide.fits(9216)
    assert tide.fits("9KiB")
    assert not tide.fits(9215)
    with pytest.raises(LowtideError, match="8 bananas"):
        tide.fits("8 bananas")


def test_bytes_by_kind_add_up_to_the_curve_at_every_event(tide):
    layers = explain.bytes_by_kind(tide)
    assert layers.sum(axis=0).tolist() == tide.curve.bytes_in_use.tolist()
    assert layers[3].tolist() == [0, 4000, 4000, 4000, 4000, 0, 0]
    assert layers[4].tolist() == [0, 0, 300, 0, 0, 0, 0]


def test_position_of_an_event_that_allocates_nothing_is_its_node(tide):
    assert str(explain.point_at(tide, 0)) == "before the step"
    assert str(explain.point_at(tide, 3)) == "dense (MatMul)"
    assert str(explain.point_at(tide, 6)) == "adam/update"


def test_a_saved_tide_is_the_same_when_loaded(tide, tmp_path):
    path = tmp_path / "step.tide"
    tide.save(path)
    again = Tide.load(path)
    assert again.to_dict() == tide.to_dict()
    assert again.buffers.shape == tide.buffers.shape
    assert again.buffers.kind.dtype == np.uint8
    for column in ("kind", "requested", "allocated", "born", "died"):
        assert getattr(again.buffers, column).tolist() == getattr(tide.buffers, column).tolist()
    assert again.curve.nodes == tide.curve.nodes
    assert (again.building, again.unmodelled, again.notes) == (tide.building, tide.unmodelled, tide.notes)


def test_a_file_cut_off_anywhere_is_one_clean_error(tide_file):
    content = tide_file.read_bytes()
    for length in range(0, len(content), 97):
        tide_file.write_bytes(content[:length])
        with pytest.raises(LowtideError, match="not a tide"):
            Tide.load(tide_file)


def test_a_damaged_byte_never_gives_a_traceback(tide_file):
    content = bytearray(tide_file.read_bytes())
    refused = 0
    for position in range(0, len(content), 13):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        tide_file.write_bytes(damaged)
        try:
            Tide.load(tide_file)
        except LowtideError:
            refused += 1
    # Some bytes of a zip say nothing about the content, such as dates; most do.
    assert refused > len(content) // 13 // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 99}, "schema version 99"),
        ({"format": "lowtide plan"}, "lowtide plan"),
        ({"building": {"surprise": 1}}, "damaged"),
        ({"nodes": []}, "nodes that do not exist"),
        ({"kinds": ["weights", "bananas"]}, "damaged"),
    ],
)
def test_a_file_of_another_kind_says_so(tide_file, changes, message):
    edit_header(tide_file, "tide.json", **changes)
    with pytest.raises(LowtideError, match=message):
        Tide.load(tide_file)


def test_files_that_are_not_tides_are_errors(tmp_path):
    with pytest.raises(LowtideError, match="No such file"):
        Tide.load(tmp_path / "nowhere.tide")
    with pytest.raises(LowtideError, match="cannot read"):
        Tide.load(tmp_path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(LowtideError, match="not a tide"):
        Tide.load(other)


def test_saving_into_a_missing_folder_is_a_clean_error(tide, tmp_path):
    with pytest.raises(LowtideError, match="cannot write"):
        tide.save(tmp_path / "nowhere" / "step.tide")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node": [0] * 6}, "7 events, and nodes for 6"),
        ({"node": [0, 0, 0, 0, 0, 0, 4]}, "nodes that do not exist"),
        ({"curve": [], "node": []}, "no events"),
    ],
)
def test_inconsistent_columns_are_refused(tide_factory, changes, message):
    with pytest.raises(LowtideError, match=message):
        tide_factory(**changes)


def test_buffers_outside_of_the_step_are_refused(tide):
    late = replace(tide.buffers, born=tide.buffers.born + 7)
    with pytest.raises(LowtideError, match="outside of the step"):
        replace(tide, buffers=late)
    short = replace(tide.buffers, name=tide.buffers.name[:-1])
    with pytest.raises(LowtideError, match="rows"):
        replace(tide, buffers=short)


def test_json_is_versioned_and_complete(tide):
    data = json.loads(tide.to_json())
    assert data["schema_version"] == 1
    assert data["peak"] == {
        "event": 4,
        "node": "gradient_tape/MatMul",
        "op": "MatMul",
        "layer": "dense",
        "backward": True,
        "description": "gradient of dense (MatMul)",
    }
    assert data["curve"] == {
        "events": 7,
        "event": list(range(7)),
        "bytes_in_use": [3584, 7680, 8192, 7680, 8704, 4608, 3584],
    }
    assert data["unmodelled"] == [{"op": "FancyOp", "count": 2, "bytes": 640}]
    assert data["building"]["host_bytes"] is None
    assert len(data["top"]) == 5


def test_reading_it_in_a_console_and_in_a_notebook(tide):
    assert repr(tide) == "<Tide of train.py:build, batch 5: peak 8.5 KiB, safe 9 KiB, simulated>"
    page = replace(tide, target="<b>&")._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert "8.5 KiB" in page
    assert "<polygon" in page


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=500), st.integers(4, 60))
def test_a_sampled_curve_keeps_the_maxima_the_ends_and_the_limit(values, limit):
    array = np.array(values, np.int64)
    events = sample_events(array, limit)
    assert len(events) <= max(limit, 4)
    assert events.tolist() == sorted(set(events.tolist()))
    assert {0, len(values) - 1} <= set(events.tolist())
    assert int(np.argmax(array)) in events
    assert array[events].min() == array.min()
