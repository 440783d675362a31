"""The arithmetic of benchmarks/measure: costs of recording, shares at the peak, TensorFlow's message, the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.measure import overhead, rows, table, xprof_reader
from benchmarks.measure.cases import EXHAUSTIONS, TRAININGS, matches
from benchmarks.measure.message import Message, layer_in, read_message
from benchmarks.measure.processes import Ended
from benchmarks.measure.rows import ExhaustionRow, TrainingRow
from benchmarks.measure.training import summarise_record

ROOT = Path(__file__).resolve().parents[2]


def steps(usual: float, **others: float) -> list[float]:
    """The seconds of 16 steps; `s3=2.0` says that the third takes 2 seconds."""
    return [others.get(f"s{step}", usual) for step in range(1, 17)]


def recorded_run(**others: object) -> dict[str, object]:
    return {
        "peaks": [10] * 10 + [1000, 1100, 1200],
        "seconds": steps(1.0),
        "process_seconds": 20.0,
        "recorded_peaks": {"11": 1000, "12": 1100, "13": 1200},
        "peak_bytes": 1100,
        "in_layers_bytes": 990,
        "unnamed_by_kind": {"weights": 50, "optimizer": 5, "input": 55},
        **others,
    }


def exhaustion(way: str = "batch", onednn: bool = True) -> object:
    return next(case for case in EXHAUSTIONS if case.way == way and case.onednn == onednn)


def explained(*causes: str, **others: object) -> dict[str, object]:
    return {
        "way": "SIGSEGV", "seconds": 9.0, "causes": list(causes), "sentence": "the step is too large", "line": "a.py:3",
        "layers": ["conv2d"], "known_kind": 0.5, "largest_batch_size": 46, **others,
    }  # fmt: skip


def test_cases_are_those_of_the_bars() -> None:
    assert {(case.program, case.xla) for case in TRAININGS} == {
        (program, xla) for program in ("resnet", "transformer", "rnn", "custom") for xla in (True, False)
    }
    causes = {(case.cause, case.onednn) for case in EXHAUSTIONS}
    assert causes == {(cause, on) for cause in ("batch", "fragmentation", "leak", "constant") for on in (True, False)}
    names = [case.name for case in (*TRAININGS, *EXHAUSTIONS)]
    assert len(set(names)) == len(names)
    folder = ROOT / "benchmarks" / "measure" / "programs"
    assert all((folder / f"{case.program}.py").exists() for case in (*TRAININGS, *EXHAUSTIONS))


def test_parts_of_names_choose_cases() -> None:
    assert matches("rnn-xla", [])
    assert matches("rnn-xla", ["resnet", "RNN"])
    assert not matches("rnn-xla", ["out-"])


def test_steps_compared_are_those_that_the_recorder_records() -> None:
    source = (ROOT / "src" / "lowtide" / "tf" / "record" / "recorder.py").read_text()
    early, settled = (
        int(re.search(rf"^{name} = (\d+)", source, re.MULTILINE)[1])  # type: ignore[index]
        for name in ("EARLY_STEPS", "FIRST_STEADY_STEP")
    )
    assert (*range(2, early + 1), *range(settled, settled + 3)) == overhead.RECORDED_STEPS
    assert (early + 1, settled + 3) == overhead.CLOSING_STEPS
    assert settled == overhead.OPENING_STEP


def test_overhead_compares_the_same_steps() -> None:
    plain = [steps(1.0, s1=50), steps(1.0, s1=40), steps(1.0, s1=45)]
    recorded = [steps(1.0, s1=90, s2=1.1, s3=1.5, s11=1.3, s12=1.0, s13=1.0, s14=3.5)] * 3
    cost = overhead.compare(plain, recorded)
    assert cost.recording == pytest.approx(4.4 / 4)
    assert cost.opening == pytest.approx(0.3)
    assert cost.with_pause == pytest.approx((4.4 + 5.0) / 6)
    assert cost.pauses == pytest.approx((0.5, 2.5))
    assert cost.after == pytest.approx(1.0)
    assert cost.after_noise == pytest.approx((1.0, 1.0))


def test_overhead_takes_medians_and_shows_the_noise() -> None:
    plain = [steps(0.9), steps(1.0), steps(1.2)]
    recorded = [steps(1.05), steps(1.05), steps(9.0)]
    cost = overhead.compare(plain, recorded)
    assert cost.after == pytest.approx(1.05)
    assert cost.recording_noise == pytest.approx((0.9, 1.2))


def test_a_difference_below_the_noise_is_not_measurable() -> None:
    assert overhead.is_unmeasurable(1.05, (0.97, 1.06))
    assert overhead.is_unmeasurable(1.009, (1.0, 1.0))
    assert not overhead.is_unmeasurable(1.05, (0.9, 1.02))


def test_variables_without_a_layer_count_as_attributed_and_input_does_not() -> None:
    assert rows.attributed_share(recorded_run()) == pytest.approx(0.95)


def test_every_recorded_step_is_compared_with_the_programs_own_answer() -> None:
    off = recorded_run(peaks=[10] * 10 + [1000, 1101, 1200])
    assert TrainingRow(TRAININGS[0], (), (recorded_run(), off)).equal == (5, 6)
    assert TrainingRow(TRAININGS[0], (), ({"failed": "no answer"},)).equal is None


def test_record_is_reduced_to_what_the_table_needs() -> None:
    said = {
        "peak_bytes": 100,
        "recording": {"step": 12, "steps": [{"step": 11, "peak_bytes": 90}, {"step": 12, "peak_bytes": 100}]},
        "by_layer": [
            {"layer": "dense", "bytes": 60, "by_kind": {"weights": 60}},
            {"layer": None, "bytes": 30, "by_kind": {"input": 30}},
            {"layer": "conv", "bytes": 10, "by_kind": {"activations": 10}},
        ],
    }
    assert summarise_record(said) == {
        "recorded_peaks": {"11": 90, "12": 100},
        "peak_step": 12,
        "peak_bytes": 100,
        "in_layers_bytes": 70,
        "unnamed_by_kind": {"input": 30},
    }


def test_xprof_profile_is_summed_by_op() -> None:
    def block(name: str, size: int) -> dict[str, object]:
        return {"activityMetadata": {"tfOpName": name, "allocationBytes": str(size)}}

    profile = {
        "memoryProfilePerAllocator": {
            "cpu": {"profileSummary": {"peakStats": {"peakBytesInUse": "5"}}},
            "bfc": {
                "profileSummary": {"peakStats": {"peakBytesInUse": "1000"}},
                "memoryProfileSnapshots": [block("dense/MatMul", 100), block("__inference_step_9", 500), block("", 50)],
                "specialAllocations": [{"tfOpName": "unused preallocated device memory", "allocationBytes": "250"}],
                "activeAllocations": [
                    {"snapshotIndex": "0", "specialIndex": "-1", "numOccurrences": "2"},
                    {"snapshotIndex": "1", "specialIndex": "-1", "numOccurrences": "1"},
                    {"snapshotIndex": "2", "specialIndex": "-1", "numOccurrences": "1"},
                    {"snapshotIndex": "-1", "specialIndex": "0", "numOccurrences": "1"},
                ],
            },
        }
    }
    seen = xprof_reader.summarise(profile)
    assert seen["peak_bytes"] == 1000
    assert seen["by_op"] == {"__inference_step_9": 500, "dense/MatMul": 200, "(no name)": 50}
    assert seen["special"] == {"unused preallocated device memory": 250}
    assert rows.split_xprof(seen) == pytest.approx((0.2, 0.5, 0.3))


DEATH = """\
W0000 00:00:1794835077.541419   10617 bfc_allocator.cc:502] Allocator (bfc_cpu_allocator_for_gpu) ran out of memory \
trying to allocate 128.00MiB (rounded to 134217728)requested by op StatefulPartitionedCall/sequential_1/conv2d_2_1/Relu
If the cause is memory fragmentation maybe the environment variable 'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve \
the situation.
Current allocation summary follows.
I0000 00:00:1794835077.541521   10617 bfc_allocator.cc:1049] BFCAllocator dump for bfc_cpu_allocator_for_gpu
I0000 00:00:1794835077.541890   10617 bfc_allocator.cc:1113] 200 Chunks of size 256 totalling 50.0KiB
Limit:                       300.00MiB
InUse:                       288.28MiB
W0000 00:00:1794835077.541942   10617 op_kernel.cc:1858] OP_REQUIRES failed at mkl_util.h:848 : RESOURCE_EXHAUSTED: \
OOM when allocating tensor with shape[256,64,64,32] and type float on /job:localhost/replica:0/task:0/device:CPU:0
"""

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/out_batch.py", line 24, in <module>
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:

\t [[{{node sequential_1/conv2d_2_1/Relu}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom
"""


def test_message_of_a_process_that_died() -> None:
    assert read_message(DEATH, "out_batch") == Message(
        error=None,
        asked="128.00MiB",
        op="StatefulPartitionedCall/sequential_1/conv2d_2_1/Relu",
        shape="[256,64,64,32] float",
        line=None,
        attempts=1,
        dump_lines=5,
        kinds=False,
        advice=("If the cause is memory fragmentation",),
    )


def test_message_of_an_exception() -> None:
    message = read_message(DEATH + TRACEBACK, "out_batch")
    assert message.error == "ResourceExhaustedError"
    assert message.op == "sequential_1/conv2d_2_1/Relu"
    assert message.line == "out_batch.py:24"
    assert len(message.advice) == 2
    assert read_message("Killed\n", "out_batch") == Message()


def test_layer_is_found_in_the_name_of_an_op() -> None:
    assert layer_in("sequential_1/conv2d_2_1/Relu", ["conv2d_2", "dense"]) == "conv2d_2"
    assert layer_in("sequential_1/conv2d_2/Relu", ["conv2d_2", "conv2d"]) == "conv2d_2"
    assert layer_in("Fill", ["dense"]) is None
    assert layer_in(None, ["dense"]) is None


def test_ending_in_a_word() -> None:
    ways = [Ended(code, "", "", 1.0).way for code in (0, 1, -11, 139)]
    assert ways == ["well", "code 1", "SIGSEGV", "SIGSEGV"]


def test_an_explanation_is_right_if_each_cause_is() -> None:
    case = exhaustion()
    assert ExhaustionRow(case, {}, explained("batch", "batch")).right is True
    assert ExhaustionRow(case, {}, explained("leak", "batch")).right is False
    assert ExhaustionRow(case, {}, {"failed": "no answer"}).right is None


def test_bars_fail_where_there_is_no_answer() -> None:
    good = TrainingRow(TRAININGS[0], ({"seconds": steps(1.0)},), (recorded_run(),))
    right = ExhaustionRow(exhaustion(), {}, explained("batch"))
    assert [bar.holds for bar in rows.bars([good], [right])] == [True] * 5
    missing = TrainingRow(TRAININGS[1], (), ({"failed": "no answer"},))
    wrong = ExhaustionRow(exhaustion("leak"), {}, {"failed": "no answer"})
    assert [bar.holds for bar in rows.bars([good, missing], [right, wrong])] == [False] * 5
    assert rows.bars([], []) == []


def test_table_has_a_line_for_each_case_and_says_what_failed() -> None:
    plain = {"seconds": steps(1.0), "process_seconds": 10.0}
    xprof = {
        "version": "2.24", "peak_bytes": 2 << 20, "own_peak_bytes": 2 << 20, "by_op": {"a": 1 << 20},
        "special": {"unused preallocated device memory": 1 << 20},
    }  # fmt: skip
    message = {**vars(read_message(DEATH, "out_batch")), "way": "SIGSEGV", "seconds": 3.0, "lines": 9}
    tried = ({"batch_size": 46, "way": "well", "fits": True}, {"batch_size": 92, "way": "SIGSEGV", "fits": False})
    text = table.to_markdown(
        [
            TrainingRow(TRAININGS[0], (plain,), (recorded_run(),), xprof),
            TrainingRow(TRAININGS[1], (), ({"failed": "no answer within 420 s"},)),
        ],
        [
            ExhaustionRow(exhaustion(), message, explained("batch"), tried),
            ExhaustionRow(exhaustion("leak"), {}, explained("batch")),
        ],
        {"tensorflow": "2.21.0"},
    )
    lines = text.splitlines()
    assert "| resnet | 0.0 | 3 of 3 | 95.0% | input 0.0 | 2.0, equal | 50.0% | 0.0% | 50.0% |" in lines
    assert "| resnet-xla | n/a | n/a | n/a | n/a | not installed | n/a | n/a | n/a |" in lines
    assert "- resnet-xla: no answer within 420 s" in lines
    assert any("46 (46: fits; 92: runs out, SIGSEGV)" in line for line in lines)
    assert any("| out-leak-onednn-on | leak | n/a, SIGSEGV |" in line and "| 0 of 1 |" in line for line in lines)
    tables = [line for line in lines if line.startswith("|")]
    # Every line of a table has as many cells as its head.
    heads = [index for index, line in enumerate(tables) if line.startswith("|---")]
    for start, end in zip(heads, [head - 1 for head in heads[1:]] + [len(tables)], strict=True):
        assert {line.count("|") for line in tables[start - 1 : end]} == {tables[start].count("|")}
