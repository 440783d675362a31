"""The folder of a recorded run."""

import json

import pytest

from lowtide.errors import LowtideError
from lowtide.run.record import Call, Place, Record, Window, load_record, save_record

RECORD = Record(
    limit_bytes=1 << 30,
    windows=(
        Window("window-1.xplane.pb", (Call(1, 1, "init/3"), Call(2, 1, "step/8")), {}),
        Window(
            "window-2.xplane.pb",
            (Call(31, 11, "step/8"),),
            {
                62: (Place(140_000_000_000_000, 1000, "dense/kernel", "weights", "dense", "float32", (25, 10)),),
                64: (Place(256, 4, "count", "other", None, "int64", ()),),
            },
        ),
    ),
    samples=((1, 4096), (2, 8192)),
    steps=13,
    notes=("the script's own profiler was running",),
)


@pytest.mark.parametrize("record", [RECORD, Record(None, (), (), 0)])
def test_a_record_comes_back(tmp_path, record):
    save_record(record, tmp_path)
    assert load_record(tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_later_record_takes_the_place_of_an_earlier(tmp_path):
    save_record(Record(None, (), (), 0), tmp_path)
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
