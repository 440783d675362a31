"""The terminal report, the picture and the page, as text."""

import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from rich.console import Console

from lowtide.tide.columns import Unmodelled
from lowtide.view.axis import COLOURS, STACK, axis_top, ticks
from lowtide.view.pictures.tide_svg import render_picture
from lowtide.view.reports.tide import LargestBatch, TideReport, shape_text
from lowtide.view.terminal.report import TerminalReport
from tests.pages import check_self_contained, read_data, tide_page


def printed(report: TideReport, width: int = 80, *, colour: bool = False) -> str:
    system = "truecolor" if colour else None
    console = Console(file=io.StringIO(), width=width, color_system=system, force_terminal=colour, legacy_windows=False)
    console.print(TerminalReport(report))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("budget", "fits", "verdict"),
    [
        (None, None, None),
        (10240, True, "fits in 10 KiB, with 1 KiB to spare"),
        (9000, False, "may run out in 8.79 KiB: the expected peak fits, the safe bound is 216 B over"),
        (8192, False, "does not fit in 8 KiB: 512 B too much"),
    ],
)
def test_the_verdict_is_held_against_both_numbers(tide, budget, fits, verdict):
    report = TideReport(tide, budget)
    assert report.fits is fits
    assert report.verdict == verdict


def test_the_largest_batch_in_words(tide):
    assert TideReport(tide, 2**33).largest_batch_line is None
    assert TideReport(tide, 2**33, LargestBatch(1079, 2**33 - 1)).largest_batch_line == (
        "largest batch in 8 GiB: 1,079 (safe bound 8 GiB)"
    )
    assert (
        TideReport(tide, 64, LargestBatch(0, None)).largest_batch_line == "not even a batch of 1 is sure to fit in 64 B"
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_terminal_report_says_all_it_knows_and_never_exceeds_the_width(tide, width):
    text = printed(TideReport(tide, 10240, LargestBatch(6, 10000)), width)
    words = " ".join(text.split())
    for part in (
        "train.py:build · batch 5",
        "peak 8.5 KiB safe bound 9 KiB",
        "✓ fits in 10 KiB",
        "largest batch in 10 KiB: 6",
        "activations",
        "at the peak: gradient of dense (MatMul)",
        "op by op simulation",
        "40 nodes traced",
        "FancyOp ×2",
        "random weights",
    ):
        assert part in words
    assert max(len(line) for line in text.splitlines()) <= width


def test_at_80_columns_numbers_and_lines_are_never_cut(tide):
    text = printed(TideReport(tide))
    assert re.search(r"Relu +f32 100×10 +4 KiB +train\.py:7", text)


def test_a_long_name_keeps_both_its_ends(tide, tide_factory):
    long = "encoder/block_1/self_attention/multi_head_attention/query_projection_dense"
    layers = [long if layer == "dense" else layer for layer in tide.buffers.layer]
    text = printed(TideReport(replace(tide, buffers=replace(tide.buffers, layer=layers))))
    assert re.search(r"encoder\S*…\S*_dense", text)


def test_the_curve_is_drawn_in_the_colour_of_each_kind_and_without_colour_as_an_outline(tide):
    red, green, blue = (int(COLOURS["activations"][start : start + 2], 16) for start in (1, 3, 5))
    assert f"38;2;{red};{green};{blue}" in printed(TideReport(tide), colour=True)
    assert "\x1b[" not in printed(TideReport(tide))


def curve_rows(text: str) -> list[str]:
    return [
        line.partition("┤")[2] or line.partition("│")[2] for line in text.splitlines() if "┤" in line or "│" in line
    ]


def test_the_curve_is_highest_where_the_peak_is(tide):
    rows = curve_rows(printed(TideReport(tide)))
    marked = next(row for row in rows if "▼" in row).index("▼")
    heights = [
        sum(column in "▁▂▃▄▅▆▇█" for column in columns)
        for columns in zip(*(row.ljust(80) for row in rows), strict=True)
    ]
    assert heights[marked] == max(heights)
    # Seven events over some seventy columns: the peak is the fifth of them.
    assert 4 / 7 <= marked / len(rows[-1].rstrip()) <= 5 / 7


def test_a_budget_below_the_peak_is_drawn_through_the_curve(tide):
    rows = curve_rows(printed(TideReport(tide, 6144)))
    line = next(row for row in rows if row.count("━") > 40)
    assert "budget 6 KiB" in line or line.strip("━ ") == ""


def test_a_budget_far_above_the_peak_does_not_flatten_the_curve(tide):
    assert axis_top(8704, 9216, 2**40) == axis_top(8704, 9216, None)
    assert axis_top(8704, 9216, 10000) > 10000
    assert "budget" not in printed(TideReport(tide, 2**40))


def test_ticks_start_at_zero_are_few_and_stay_in_the_axis():
    assert ticks(9000, 5) == [0, 2048, 4096, 6144, 8192]
    assert ticks(1, 4) == [0, 1]
    assert all(len(ticks(top, 6)) <= 6 for top in (7, 1000, 10**6, 10**12))


def test_a_tide_with_nothing_in_it_is_drawn_too(tide_factory, tide):
    nothing = replace(
        tide_factory(
            curve=[0], node=[0], nodes=[], rows=[("x:0", "Arg", None, "input", "int32", (), 0, 0, 0, 1, None)]
        ),
        peak_bytes=0,
        safe_bytes=0,
        unmodelled=(),
        notes=(),
        batch_size=None,
    )
    report = TideReport(nothing, 1024)
    assert "before the step" in printed(report)
    ElementTree.fromstring(render_picture(report))
    assert "before the step" in tide_page(report)


def test_no_tensors_are_listed_when_none_are_asked_for(tide):
    assert "Relu" not in printed(TideReport(tide, top=0))


def test_the_picture_is_an_svg_with_an_area_for_each_kind_in_use(tide):
    root = ElementTree.fromstring(render_picture(TideReport(tide, 10240)))
    space = "{http://www.w3.org/2000/svg}"
    drawn = [polygon.find(f"{space}title").text for polygon in root.iter(f"{space}polygon")]
    assert drawn == ["weights", "optimizer", "input", "slack", "activations", "gradients", "workspace"]
    texts = [text.text for text in root.iter(f"{space}text")]
    assert "train.py:build · batch 5" in texts
    assert "budget 10 KiB" in texts
    assert "gradient of dense (MatMul)" in texts


def test_names_are_escaped_in_the_picture_and_harmless_in_the_page(tide):
    nasty = replace(tide, target='</script><img src=x onerror="x">&')
    ElementTree.fromstring(render_picture(TideReport(nasty)))
    page = tide_page(TideReport(nasty))
    check_self_contained(page)


def test_the_page_asks_the_network_for_nothing(tide):
    check_self_contained(tide_page(TideReport(tide)))


def test_the_data_of_the_page_is_the_tide(tide):
    data = read_data(tide_page(TideReport(tide, 10240)))
    assert data["curve"]["bytes"] == tide.curve.bytes_in_use.tolist()
    assert [sum(column) for column in zip(*data["curve"]["strata"], strict=True)] == data["curve"]["bytes"]
    assert data["buffers"]["name"][0] == "dense/Relu:0"
    assert [kind["name"] for kind in data["kinds"]] == list(STACK)


def test_every_method_and_shape_reads_well(tide):
    assert "XLA" in TideReport(replace(tide, method="xla")).method_line
    assert TideReport(replace(tide, unmodelled=())).unmodelled_line is None
    assert (
        "A ×1 (1 KiB), B"
        in TideReport(replace(tide, unmodelled=(Unmodelled("A", 1, 1024), Unmodelled("B", 2, 0)))).unmodelled_line
    )
    assert shape_text("float32", (2, 3)) == "float32 2×3"
    assert shape_text("int32", ()) == "int32 scalar"
    assert shape_text("variant", None) == "variant ?"
