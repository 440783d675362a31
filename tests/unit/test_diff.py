"""The difference of two tides: exact on tiny ones, and adding up on any."""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import lowtide
from lowtide.errors import LowtideError
from lowtide.tide.columns import Building, Curve
from lowtide.tide.diff import Change, Difference, diff
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide
from lowtide.units import parse_growth
from lowtide.view.html_page import render_html
from lowtide.view.page_data.difference import difference_data
from lowtide.view.reports.difference import DifferenceReport
from lowtide.view.reports.tide import LargestBatch, TideReport
from lowtide.view.terminal.difference import TerminalDifference
from lowtide.view.terminal.difference_markdown import render_markdown
from tests.conftest import TINY, WIDER, make_buffers, make_tide
from tests.pages import check_self_contained


@pytest.fixture
def difference(tide, wider) -> Difference:
    return lowtide.diff(tide, wider)


def test_the_peak_and_the_safe_bound(difference):
    assert difference.peak == Change(8704, 14080)
    assert difference.safe == Change(9216, 16384)
    assert difference.growth_bytes == 5376
    assert difference.growth == 5376 / 8704
    assert difference.headline == "8.5 KiB -> 13.8 KiB, +61.8%: 1 layer grew, 1 is new"
    assert repr(difference) == "<Difference: 8.5 KiB -> 13.8 KiB, +61.8%: 1 layer grew, 1 is new>"


def test_kinds_are_what_was_asked_for_and_the_slack(difference):
    assert [(row.kind, row.growth_bytes) for row in difference.by_kind if row.growth_bytes] == [
        ("activations", 4100),
        ("weights", 1000),
        ("slack", 376),
        ("gradients", -100),
    ]
    assert difference.slack == Change(204, 580)


def test_layers_are_matched_across_processes_and_name_what_is_new(difference):
    rows = [(row.layer, row.was, row.status, row.before_bytes, row.after_bytes) for row in difference.by_layer]
    assert rows == [
        ("dense_3", "dense", "grown", 8000, 12900),
        ("norm", None, "added", 0, 100),
        (None, None, "same", 500, 500),
    ]
    assert [row.layer for row in difference.changed] == ["dense_3", "norm"]


def test_tensors_of_a_layer_before_and_after(difference):
    relu, kernel, gradient = difference.by_layer[0].tensors
    assert (relu.before.shape, relu.after.shape, relu.growth_bytes) == ((100, 10), (200, 10), 4000)
    assert relu.tensor.source == "train.py:8"
    assert (kernel.before.shape, kernel.after.shape, kernel.growth_bytes) == ((25, 10), (50, 10), 1000)
    assert (gradient.tensor.op, gradient.growth_bytes) == ("MatMul", -100)
    (new,) = difference.by_layer[1].tensors
    assert new.before is None
    assert new.growth_bytes == 100


def test_the_other_way_round_everything_has_the_other_sign(tide, wider, difference):
    back = diff(wider, tide)
    assert back.growth_bytes == -5376
    assert back.headline == "13.8 KiB -> 8.5 KiB, -38.2%: 1 layer shrank, 1 is gone"
    assert [(row.layer, row.was, row.status) for row in back.changed] == [
        ("dense", "dense_3", "shrunk"),
        ("norm", None, "removed"),
    ]
    assert [row.growth_bytes for row in back.by_layer] == [-row.growth_bytes for row in difference.by_layer]


def test_a_tide_does_not_differ_from_itself(tide):
    nothing = diff(tide, tide)
    assert nothing.headline == "8.5 KiB -> 8.5 KiB, no change: no layer changed"
    assert (nothing.growth, nothing.changed, nothing.notes) == (0.0, (), ())
    assert not nothing.exceeds(0)
    assert "no layer changed" in printed(DifferenceReport(nothing, TideReport(tide)))


def test_a_layer_that_holds_nothing_at_the_peak_is_not_new():
    """The workspace of "norm" is gone by the peak in one tide, and still there in the other."""
    short = ("norm/mul:temp", "Mul", "norm", "workspace", "uint8", (64,), 64, 256, 1, 2, None)
    before = make_tide([*TINY, short], [3584, 7936, 8192, 7680, 8704, 4608, 3584])
    after = make_tide([*TINY, (*short[:8], 1, 5, None)], [3584, 7936, 8448, 7936, 8960, 4608, 3584], peak_bytes=8960)
    (change,) = diff(before, after).changed
    assert (change.layer, change.status, change.before_bytes, change.after_bytes) == ("norm", "grown", 0, 64)


@pytest.mark.parametrize(
    ("limit", "exceeded"),
    [("61%", True), ("62%", False), (0.61, True), (0.62, False), ("5375", None), (5375, True), (5376, False)]
    + [("5KiB", True), ("5.25KiB", False), ("1GiB", False), ("0%", True), (parse_growth("61%"), True)],
)
def test_a_limit_is_a_share_of_the_peak_before_or_an_amount(difference, limit, exceeded):
    if exceeded is None:
        with pytest.raises(LowtideError, match="5%"):
            difference.exceeds(limit)
    else:
        assert difference.exceeds(limit) is exceeded


def test_growth_from_zero_has_no_share(tide):
    empty = make_tide([("x:0", "Arg", None, "input", "int32", (), 0, 0, 0, 1, None)], [0], [0], [], peak_bytes=0)
    difference = diff(empty, tide)
    assert difference.growth is None
    assert "from nothing" in difference.headline
    assert difference.exceeds("1000%")
    assert not diff(tide, empty).exceeds("0%")


def test_tides_that_are_hardly_comparable_say_so(tide, wider, difference):
    assert difference.notes == ()
    other = replace(wider, target="other.py:build", batch_size=None, method="recorded")
    notes = diff(tide, other).notes
    assert notes[0] == "the targets differ: train.py:build before, other.py:build after"
    assert notes[1].startswith("the batch sizes differ: 5 before, not known after")
    assert notes[2].startswith("found by different methods: simulated before, recorded after")
    assert len(notes) == 3


def test_a_peak_at_another_place_is_noted(tide):
    early = make_tide(curve=[3584, 7680, 9000, 7680, 8704, 4608, 3584], peak_bytes=9000)
    (note,) = diff(tide, early).notes
    assert note.startswith("the peak has moved: it was at gradient of dense (MatMul), it is at dense (MatMul);")
    # What the buffers do not account for is slack, so that the rows still add up.
    assert_adds_up(diff(tide, early))


def test_a_file_that_is_not_a_tide_is_refused_in_one_line(tide):
    for wrong in ("main.tide", None, diff):
        with pytest.raises(LowtideError, match=r"two tides .*given: .*; give what"):
            diff(tide, wrong)


def test_json_is_versioned_and_complete(difference):
    data = json.loads(difference.to_json())
    assert data["schema_version"] == 1
    assert data["headline"] == difference.headline
    assert data["before"] == {
        "target": "train.py:build",
        "method": "simulated",
        "batch_size": 5,
        "peak_bytes": 8704,
        "safe_bytes": 9216,
        "peak_place": "gradient of dense (MatMul)",
    }
    assert (data["growth_bytes"], data["safe_growth_bytes"]) == (5376, 7168)
    first = data["by_layer"][0]
    assert {key: first[key] for key in ("layer", "was", "status", "growth_bytes")} == {
        "layer": "dense_3",
        "was": "dense",
        "status": "grown",
        "growth_bytes": 4900,
    }
    assert first["tensors"][0]["before"]["shape"] == [100, 10]
    assert first["tensors"][0]["after"]["source"] == "train.py:8"
    assert data["by_layer"][1]["tensors"][0]["before"] is None
    assert sum(row["growth_bytes"] for row in data["by_kind"]) == data["growth_bytes"]
    assert data["slack"] == {"before_bytes": 204, "after_bytes": 580, "growth_bytes": 376}


def assert_adds_up(difference: Difference) -> None:
    growth = difference.after.peak_bytes - difference.before.peak_bytes
    assert difference.growth_bytes == growth
    assert sum(row.growth_bytes for row in difference.by_kind) == growth
    assert sum(row.growth_bytes for row in difference.by_layer) + difference.slack.growth_bytes == growth
    for row in difference.by_layer:
        assert sum(change.growth_bytes for change in row.tensors) == row.growth_bytes
    for side in ("before", "after"):
        peak = getattr(difference, side).peak_bytes
        sizes = [getattr(row, f"{side}_bytes") for row in difference.by_layer]
        assert sum(sizes) + getattr(difference.slack, f"{side}_bytes") == peak
    shown = DifferenceReport(difference, TideReport(difference.after, top=2))
    if difference.changed:
        assert sum(change.growth_bytes for _, change in shown.layer_rows()) == growth


EVENTS = 6
rows = st.tuples(
    st.sampled_from(["dense", "dense_1", "dense_2", "norm", "a/b_1", None]),
    st.sampled_from(KINDS),
    st.sampled_from(["Relu", "Mul", "Variable"]),
    st.integers(0, 5000),
    st.integers(0, EVENTS - 1),
    st.integers(0, EVENTS),
)


@st.composite
def tides(draw) -> Tide:
    buffers = []
    curve = np.zeros(EVENTS, np.int64)
    for number, (layer, kind, op, size, born, died) in enumerate(draw(st.lists(rows, min_size=1, max_size=12))):
        allocated = size + draw(st.integers(0, 300))
        curve[born:died] += allocated
        name = f"{layer}/{op}_{number % 3}:0"
        buffers.append((name, op, layer, kind, "uint8", (size,), size, allocated, born, died, None))
    return Tide(
        target="random",
        method="simulated",
        batch_size=1,
        # A record may have missed something.
        peak_bytes=int(curve.max()) + draw(st.sampled_from([0, 0, 100])),
        safe_bytes=int(curve.max()) + 100,
        buffers=make_buffers(buffers),
        curve=Curve(curve, np.zeros(EVENTS, np.int32), ["node"]),
        building=Building(1, 1, 1, None),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tides(), tides())
def test_the_rows_of_any_difference_add_up_to_the_growth(before, after):
    assert_adds_up(diff(before, after))
    assert_adds_up(diff(before, before))


def printed(shown: DifferenceReport, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(TerminalDifference(shown))
    return console.file.getvalue()


@pytest.fixture
def shown(difference) -> DifferenceReport:
    return DifferenceReport(
        difference, TideReport(difference.after, 2**20, LargestBatch(99, 2**20)), parse_growth("5%")
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_terminal_says_all_it_knows_and_never_exceeds_the_width(shown, width):
    text = printed(shown, width)
    words = " ".join(text.split())
    for part in (
        "train.py:build · batch 5 against train.py:build · batch 5",
        "peak 8.5 KiB -> 13.8 KiB, +61.8%: 1 layer grew, 1 is new",
        "safe bound 9 KiB -> 16 KiB, +77.8%",
        "✗ the peak grew by 5.25 KiB, more than the 5% (435 B) allowed",
        "✓ fits in 1 MiB",
        "largest batch in 1 MiB: 99",
        "+4 KiB",
        "+ norm",
        "+376 B",
    ):
        assert part in words
    assert max(len(line) for line in text.splitlines()) <= width


def test_at_80_columns_layers_and_tensors_are_shown_with_their_numbers(shown):
    text = printed(shown)
    assert re.search(r"↑ dense_3 \(was dense\) +7\.81 KiB +12\.6 KiB +\+4\.79 KiB", text)
    assert re.search(r"\+ norm +0 B +100 B +\+100 B", text)
    assert re.search(r"↑ █ Relu +f32 100×10 -> 200×10 +\+3\.91 KiB +train\.py:8", text)


def test_bars_point_right_for_growth_and_left_for_shrinkage(tide, wider):
    lines = printed(DifferenceReport(diff(wider, tide), TideReport(tide)), 100).splitlines()
    activations, gradients = (next(line for line in lines if f"█ {kind}" in line) for kind in ("act", "grad"))
    # The first block of a line is the colour of the kind.
    assert activations.rstrip().endswith("█│")
    assert re.search(r"│[▏▎▍▌▋▊▉█]+ *$", gradients)
    assert activations.index("│") == gradients.index("│")


def test_layers_beyond_those_asked_for_are_added_up(shown):
    text = printed(replace(shown, report=replace(shown.report, top=1)))
    assert re.search(r"1 more +0 B +100 B +\+100 B", text)


def test_what_grew_within_the_limit_passes(difference):
    shown = DifferenceReport(difference, TideReport(difference.after), parse_growth("6KiB"))
    assert shown.passes
    assert shown.verdicts == [(True, "the peak grew by no more than the 6 KiB allowed")]
    assert shown.to_dict()["max_growth"] == {"given": "6 KiB", "bytes": 6144, "exceeded": False}
    assert DifferenceReport(difference, TideReport(difference.after)).verdicts == []
    assert not DifferenceReport(difference, TideReport(difference.after, 1024), parse_growth("6KiB")).passes


def test_markdown_is_a_table_that_adds_up_and_cannot_be_broken_by_names(shown):
    text = render_markdown(shown)
    assert text.startswith("### Memory of train.py:build · batch 5: 8.5 KiB -> 13.8 KiB, +61.8%\n")
    assert "| `↑ dense_3 (was dense)` | 7.81 KiB | 12.6 KiB | +4.79 KiB |" in text
    assert "| **peak** | **8.5 KiB** | **13.8 KiB** | **+5.25 KiB** |" in text
    assert "- ❌ the peak grew by 5.25 KiB" in text
    buffers = replace(shown.difference.after.buffers, layer=["`a|b`\n<img>" if layer else None for layer in WIDER])
    nasty = replace(shown.difference.after, buffers=buffers, target="<b>`x`|*y*")
    text = render_markdown(DifferenceReport(diff(shown.difference.before, nasty), TideReport(nasty)))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert any(r"`+ 'a\|b' <img>`" in row for row in rows)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {5, 6}
    assert r"\<b>\`x\`\|\*y\*" in text


def test_the_page_needs_nothing_else_and_escapes_names(shown):
    nasty = replace(shown.difference.after, target='</script><img src=x onerror="x">&')
    report = DifferenceReport(diff(shown.difference.before, nasty), TideReport(nasty, 1024))
    page = render_html("difference", difference_data(report))
    check_self_contained(page)
    assert "dense_3 (was dense)" in page
    assert "float32 100×10 -> 200×10" in page
    assert "the targets differ" in page


def test_in_a_notebook(difference):
    page = difference._repr_html_()
    assert "8.5 KiB -&gt; 13.8 KiB" in page
    assert "dense_3" in page
    many = replace(difference, by_layer=difference.by_layer[:2] * 8, notes=("<b>",))
    page = many._repr_html_()
    assert "6 more" in page
    assert "&lt;b&gt;" in page
