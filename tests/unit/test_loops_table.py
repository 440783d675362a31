"""The figures and the table of the benchmark of steps with loops."""

from benchmarks.accuracy.loops.table import LoopProgram, to_markdown

MIB = 2**20
PROGRAM = LoopProgram(
    "lstm", ((30 * MIB, 34 * MIB, 40 * MIB), (90 * MIB, 91 * MIB, 33 * MIB)), 38 * MIB, 90 * MIB, 89 * MIB
)


def test_figures_of_a_program():
    assert round(PROGRAM.error, 3) == round(38 / 37 - 1, 3)
    assert PROGRAM.bound_ratio == 89 / 91
    assert PROGRAM.exceeded == 2


def test_the_table_states_whether_the_bars_hold():
    text = to_markdown([PROGRAM], {"cores": "2"})
    assert "| median error of the usual peak at most 3% | 2.7% | yes |" in text
    assert "| no step above its bound | 2 of 6 | **no** |" in text
    assert "| lstm | 2 | 6 | 30.0 | 37.0 | 91.0 | 34.0 to 90.0 | 38.0 | +2.7% | 90.0 | 89.0 | 0.98 | 2 |" in text
