"""The accuracy benchmark's own arithmetic: the zoo's extent, the cache, the errors and the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.accuracy import measure, table, zoo
from benchmarks.accuracy.table import Row
from benchmarks.common import processes
from benchmarks.common.cache import Cache


def row(name: str, measured: int | None, predicted: int | None, **rest: object) -> Row:
    return Row(name, name.partition("-")[0], measured_bytes=measured, predicted_bytes=predicted, **rest)


def test_zoo_is_as_wide_as_the_bars_ask() -> None:
    entries = zoo.CONFIGURATIONS
    assert len({entry.architecture for entry in entries}) >= 26
    assert len(entries) >= 66
    assert {entry.optimizer for entry in entries} == set(zoo.OPTIMIZERS)
    assert {entry.precision for entry in entries} == set(zoo.PRECISIONS)
    assert {entry.xla for entry in entries} == {True, False}
    required = {
        "resnet50", "mobilenetv2", "densenet121", "xception", "efficientnetv2b0", "mobilenetv3small",
        "mlp", "conv_chain", "transformer_encoder", "gru", "autoencoder", "two_tower", "gan",
    }  # fmt: skip
    assert required <= {entry.architecture for entry in entries}


def test_names_of_configurations_are_unique_and_can_be_parsed() -> None:
    names = [entry.name for entry in zoo.CONFIGURATIONS]
    assert len(set(names)) == len(names)
    assert all(zoo.find(entry.name) is entry for entry in zoo.CONFIGURATIONS)
    assert set(zoo.QUICK) <= set(names)
    with pytest.raises(KeyError, match="no configuration is called 'nothing'"):
        zoo.find("nothing")


def test_name_holds_everything_that_differs() -> None:
    entry = zoo.Configuration("mlp", 4, "sgd", "mixed_bfloat16", True, {"width": 8}, 3, gradient_accumulation_steps=2)
    assert entry.name == "mlp-width8-b4-sgd-accumulate2-execute3-bf16-xla"


def test_select_by_part_of_the_name() -> None:
    assert {entry.architecture for entry in zoo.select(("ResNet",))} == {"resnet50"}
    assert zoo.select(("no such",)) == []
    held_out = zoo.select(held_out=True)
    assert len(held_out) >= 15
    assert not {entry.name for entry in held_out} & {entry.name for entry in zoo.CONFIGURATIONS}
    assert all(zoo.find(entry.name) is entry for entry in held_out)
    assert [entry.name for entry in zoo.select(quick=True)] == [
        entry.name for entry in zoo.CONFIGURATIONS if entry.name in zoo.QUICK
    ]


def test_percentile_interpolates() -> None:
    assert table.percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert table.percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)
    assert table.percentile([7.0], 0.95) == 7.0
    assert table.percentile([], 0.5) is None


def test_row_compares_with_what_was_measured() -> None:
    entry = row("a-1", 1000, 980, safe_bytes=1050, grappler_bytes=400)
    assert entry.error == pytest.approx(-0.02)
    assert entry.safe_ratio == pytest.approx(1.05)
    assert entry.grappler_error == pytest.approx(-0.6)
    assert row("a-2", None, 980).error is None
    assert row("a-3", 1000, None).safe_ratio is None


def test_summary_counts_misses_in_both_directions() -> None:
    rows = [
        row("a-1", 1000, 990, safe_bytes=1100, highest_bytes=1000, ran_out=False, grappler_bytes=500),
        row("a-2", 1000, 1030, safe_bytes=1040, highest_bytes=1300, ran_out=True),
        row("b-1", 1000, 1020, safe_bytes=1060, highest_bytes=1000, ran_out=False),
        row("b-2", None, 5),
        row("c-1", 1000, None),
    ]
    summary = table.summarise(rows)
    assert (summary.configurations, summary.architectures) == (5, 3)
    assert (summary.measured, summary.predicted) == (4, 3)
    assert summary.median_error == pytest.approx(0.02)
    assert summary.worst_error == pytest.approx(0.03)
    assert summary.worst_name == "a-2"
    assert (summary.ran_out, summary.limited) == (1, 3)
    assert summary.ran_out_fraction == pytest.approx(1 / 3)
    assert summary.median_safe_ratio == pytest.approx(1.06)
    assert summary.median_bound_ratio == pytest.approx(1.06)
    assert (summary.worst_bound_ratio, summary.exceeded) == (pytest.approx(1.1), 1)
    assert (summary.grappler_answered, summary.grappler_median_error) == (1, pytest.approx(0.5))


def test_summary_of_nothing_claims_nothing() -> None:
    summary = table.summarise([row("a-1", None, None)])
    assert summary.median_error is None
    assert summary.ran_out_fraction is None
    assert "n/a" in table.summary_markdown(summary)


def test_markdown_has_one_line_per_row_and_says_what_is_missing() -> None:
    rows = [
        row("a-1", 2**20, 2**20 + 2**18, lowest_bytes=2**20, highest_bytes=2**21, ran_out=True),
        row("b-1", None, None, note="measuring: no answer within 5 s"),
    ]
    text = table.to_markdown(rows, {"cpu": "some processor"})
    line = next(line for line in text.splitlines() if line.startswith("| a-1"))
    assert line == "| a-1 | 1.0 | 1.0 to 2.0 | 1.2 | +25.0% | n/a | n/a | n/a | yes | n/a |"
    assert "- b-1: measuring: no answer within 5 s" in text
    assert "some processor" in text


def test_json_carries_the_same_figures() -> None:
    body = json.loads(table.to_json([row("a-1", 1000, 1100, safe_bytes=1200)], {"cpu": "x"}))
    assert body["schema_version"] == 1
    assert body["rows"][0]["error"] == pytest.approx(0.1)
    assert body["rows"][0]["safe_ratio"] == pytest.approx(1.2)
    assert body["summary"]["median_error"] == pytest.approx(0.1)


def test_measured_peak_is_the_median_of_the_steps() -> None:
    result = measure.summarise({"peaks": [100, 104, 110, 102, 98]})
    assert (result["peak_bytes"], result["lowest_bytes"], result["highest_bytes"]) == (102, 98, 110)
    assert result["spread"] == pytest.approx(12 / 102)
    assert measure.summarise({"failed": "exit code 1"}) == {"failed": "exit code 1"}


def test_cache_keeps_the_last_result_of_a_key(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "results")
    assert cache.find("measured", "k") is None
    cache.add("measured", "k", {"peak_bytes": 1})
    cache.add("measured", "other", {"peak_bytes": 2})
    cache.add("measured", "k", {"peak_bytes": 3})
    assert cache.find("measured", "k") == {"peak_bytes": 3}
    assert cache.find("limited", "k") is None


def test_the_limit_is_rounded_up_to_whole_mebibytes() -> None:
    assert processes.allocator_environment(2**20)["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "1"
    assert processes.allocator_environment(2**20 + 1)["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "2"


def test_failures_crashes_and_hangs_of_a_child_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {
        "answers": "import sys; open(sys.argv[-1], 'w').write('{\"peaks\": [1]}')",
        "fails": "raise ValueError('no such layer')",
        "crashes": "import os; os.kill(os.getpid(), 11)",
        "hangs": "import time; time.sleep(60)",
    }
    for name, text in scripts.items():
        (tmp_path / f"child_{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = {name: processes.run_module(f"child_{name}", [], {}, 20.0) for name in list(scripts)[:3]}
    assert run["answers"]["peaks"] == [1]
    assert run["fails"]["failed"] == "exit code 1: ValueError: no such layer"
    assert run["crashes"]["crashed"] == "SIGSEGV"
    hung = processes.run_module("child_hangs", [], {}, 1.0)
    assert hung["failed"] == "no answer within 1 s"
