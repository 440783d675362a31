"""The folder of a recorded run."""

import json

import pytest

from lowtide.errors import LowtideError
from lowtide.run.record import Call, RunRecord, Window, load_record, save_record
from lowtide.tide.owner import Owner

RECORD = RunRecord(
    limit_bytes=1 << 30,
    windows=(
        Window("window-1.xplane.pb", (Call(1, 1, "init/3"), Call(2, 1, "step/8")), {}),
        Window(
            "window-2.xplane.pb",
            (Call(31, 11, "step/8"),),
            {
                62: (
                    Owner(
                        name="dense/kernel",
                        layer="dense",
                        kind="weights",
                        dtype="float32",
                        shape=(25, 10),
                        bytes=1000,
                        address=140_000_000_000_000,
                    ),
                ),
                64: (Owner(name="count", layer=None, kind="other", dtype="int64", shape=(), bytes=4, address=256),),
            },
        ),
    ),
    samples=((1, 4096), (2, 8192)),
    steps=13,
    notes=("the script's own profiler was running",),
)


@pytest.mark.parametrize("record", [RECORD, RunRecord(None, (), (), 0)])
def test_a_record_comes_back(tmp_path, record):
    save_record(record, tmp_path)
    assert load_record(tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_later_record_takes_the_place_of_an_earlier(tmp_path):
    save_record(RunRecord(None, (), (), 0), tmp_path)
    save_record(RECORD, tmp_path)
    assert load_record(tmp_path).steps == 13


def test_marks_of_a_call():
    assert (Call(31, 11, "step").begin_mark, Call(31, 11, "step").end_mark) == (62, 63)


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_no_record(tmp_path, folder):
    assert load_record(tmp_path / folder) is None


def test_a_record_of_another_version_is_refused(tmp_path):
    save_record(RECORD, tmp_path)
    stored = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**stored, "schema_version": 2, "more": 1}))
    with pytest.raises(LowtideError, match="run the script again"):
        load_record(tmp_path)


def test_the_owners_at_the_last_call_are_not_those_that_were_found_while_it_ran():
    """The inputs of an eager step, and the tensors that a thread finds, are recorded under later marks."""
    kernel, found = Owner("kernel", kind="weights", address=256), Owner("the running call of `f`", address=512)
    calls = (Call(1, 1, "step"), Call(4, 2, "step"))
    window = Window("window-1.xplane.pb", calls, {2: (found,), 8: (kernel,), 12: (found,)})
    assert window.owners_at_last_call == (kernel,)
    assert Window("", (), {}).owners_at_last_call == ()
