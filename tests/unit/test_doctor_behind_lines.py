"""A shortage names the mistakes of the code that explain it, and no others."""

import os
from pathlib import Path

import pytest

import lowtide.doctor.settings
from lowtide.doctor.problem import Problem
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import find_rule
from lowtide.oom.cause import OomCause
from lowtide.oom.code_mistakes import name_mistakes, name_mistakes_of_log
from lowtide.oom.evidence import Request
from lowtide.oom.shortage import Shortage
from lowtide.run.launch import Script
from lowtide.tide.owner import Owner
from lowtide.view.reports.shortage import fact_lines


def _find_appends(module):
    for call, _ in module.method_calls("append"):
        yield Problem(call, "tensors are kept", "use float()")


def _find_constants(module):
    for call in module.calls("tensorflow.constant"):
        yield Problem(call, "a whole array in a constant", "stream it")


KEPT = Rule("LT401", "kept", _find_appends, "")
CONSTANT = Rule("LT103", "constant", _find_constants, "")

SCRIPT = """\
import tensorflow as tf
import helper

data = tf.data.Dataset.range(9).batch(3).shuffle(5)
other = tf.data.Dataset.range(9).batch(3).shuffle(5)
losses, names = [], []
for batch in data.prefetch(1):
    loss = tf.reduce_sum(batch)
    losses.append(loss)
    names.append("x")
table = tf.constant([1, 2])
"""


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch) -> Path:
    rules = (CONSTANT, find_rule("LT203"), KEPT)
    monkeypatch.setattr(lowtide.doctor.settings, "all_rules", lambda: rules)
    (tmp_path / "helper.py").write_text("import tensorflow as tf\n\nx = [].append(1)\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def shortage(cause: str = "batch", source: str | None = None, *holders: Owner, op: str | None = None) -> Shortage:
    request = Request(bytes=100, source=source, op=op)
    return Shortage(request=request, holders=holders, target="train.py", cause=OomCause(cause, "it ran out"))


def named(found: Shortage) -> list[str]:
    return [f"{each.code} {each.source}" for each in found.mistakes]


def test_a_mistake_on_the_line_that_asked(script):
    found = name_mistakes(shortage("batch", "train.py:11"), script)
    assert named(found) == ["LT103 train.py:11"]
    assert fact_lines(found)[-1] == (
        "in the code",
        "LT103 at train.py:11: a whole array in a constant; lowtide doctor --explain LT103",
    )
    assert found.to_dict()["mistakes"][0]["source"] == "train.py:11"


def test_a_mistake_in_the_dataset_that_the_line_reads(script):
    # Line 7 reads the dataset of line 4, and not that of line 5.
    assert named(name_mistakes(shortage("leak", "train.py:7"), script)) == ["LT203 train.py:4"]


def test_a_mistake_on_the_line_of_what_is_held(script):
    large, small = Owner(bytes=96, source="train.py:9"), Owner(bytes=4, source="train.py:11")
    assert named(name_mistakes(shortage("batch", None, large, small), script)) == ["LT401 train.py:9"]


def test_a_mistake_with_the_variable_that_holds_the_memory(script):
    held = Owner(bytes=100, name="global `losses` of train.py", count=50)
    assert named(name_mistakes(shortage("leak", "train.py:8", held), script)) == ["LT401 train.py:9"]
    part_of_a_name = Owner(bytes=100, name="global `loss` of train.py")
    assert named(name_mistakes(shortage("batch", None, part_of_a_name), script)) == ["LT401 train.py:9"]
    assert named(name_mistakes(shortage("batch", None, Owner(bytes=1, name="global `los` of train.py")), script)) == []


def test_a_file_beside_the_script(script):
    assert named(name_mistakes(shortage("batch", "helper.py:3"), script)) == ["LT401 helper.py:3"]
    assert named(name_mistakes(shortage("batch", "elsewhere.py:3"), script)) == []


def test_a_rule_that_is_what_the_cause_says(script):
    assert named(name_mistakes(shortage("leak"), script)) == ["LT401 train.py:9", "LT401 train.py:10"]
    assert named(name_mistakes(shortage("constant", op="Const"), script)) == ["LT103 train.py:11"]
    assert named(name_mistakes(shortage("constant", op="_EagerConst"), script)) == []


@pytest.mark.parametrize("cause", ["batch", "fragmentation", "weights", "device", "host", "container", "unknown"])
def test_without_a_match_nothing_is_said(script, cause):
    assert named(name_mistakes(shortage(cause, "train.py:6"), script)) == []
    assert named(name_mistakes(shortage(cause), script)) == []
    assert [label for label, _ in fact_lines(name_mistakes(shortage(cause), script))] == ["asked for"]


def test_comments_and_broken_files_are_respected(script):
    script.write_text(SCRIPT.replace("[1, 2])", "[1, 2])  # lowtide: ignore[LT103]"))
    assert named(name_mistakes(shortage("batch", "train.py:11"), script)) == []
    for text in ("def f(:\n", "\xff"):
        script.write_bytes(text.encode("latin-1"))
        assert named(name_mistakes(shortage("batch", "train.py:1"), script)) == []
    script.unlink()
    assert named(name_mistakes(shortage("leak", "train.py:1"), script)) == []


def test_a_log_names_lines_of_files_beside_it_that_are_older(script, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("")
    os.utime(script, (1000, 1000))
    os.utime(log, (2000, 2000))
    assert named(name_mistakes_of_log(shortage("batch", "train.py:11"), log)) == ["LT103 train.py:11"]
    # What the cause alone suggests may be another program.
    assert named(name_mistakes_of_log(shortage("leak"), log)) == []
    # The lines of a file that was edited since are others.
    os.utime(script, (3000, 3000))
    assert named(name_mistakes_of_log(shortage("batch", "train.py:11"), log)) == []
    assert named(name_mistakes_of_log(shortage("batch", "train.py:11"), Path("-"))) == []


def test_the_file_of_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("package/train.py", "package/tool/__main__.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("")
    assert Script("package/train.py").file == Path("package/train.py")
    assert Script("package/tool").file == Path("package/tool/__main__.py")
    assert Script("package.train", is_module=True).file == Path("package/train.py")
    assert Script("package.tool", is_module=True).file == Path("package/tool/__main__.py")
    assert Script("-").file is None
    assert Script("timeit", is_module=True).file is None
