"""The pure parts of benchmarks/explore: generated graphs, figures, bars and tables."""

from __future__ import annotations

import io
import struct

import google_crc32c
import pytest
from benchmarks.common.report import to_markdown
from benchmarks.explore import sections
from benchmarks.explore.block import Sheet, backward, forward
from benchmarks.explore.bounded import folded_nodes
from benchmarks.explore.figures import Figure, bar, figure, highest, lowest
from benchmarks.explore.generate import block_nodes, wrap_in_events, write_training, write_wide
from benchmarks.explore.page import joined, openable
from benchmarks.explore.sections import GraphRow
from benchmarks.explore.suite import CASES, MEGABYTE, MILLION, QUICK, TEN_MILLION, BoundedScreen, GraphCase, select

from lowtide.atlas.atlas import Atlas, Source
from lowtide.atlas.index_cache import build_atlas
from lowtide.sources.graphs.find_graphs import find_graphs


def runs(**values: list[object]) -> dict[str, object]:
    """Runs that differ in these values."""
    count = len(next(iter(values.values())))
    return {"runs": [{name: each[place] for name, each in values.items()} for place in range(count)]}


@pytest.fixture
def index(tmp_path):
    def build(write, *given: object, **options: object) -> tuple[int, Atlas]:
        path = tmp_path / "graph.pb"
        with path.open("wb") as file:
            count = write(file, *given, **options)
        return count, build_atlas(Source(path, 0, path.stat().st_size), cache=tmp_path / "cache")

    return build


# -- graphs --------------------------------------------------------------------------------------------


def test_blocks_that_are_stamped_are_the_same_as_blocks_that_are_written_one_by_one() -> None:
    # Enough for numbers of one and two digits, and for several towers.
    file = io.BytesIO()
    write_training(file, 150 * block_nodes())
    written = file.getvalue()
    for tower, block, other in ((0, 0, None), (0, 10, (0, 9)), (1, 0, (0, 24)), (5, 24, (5, 23))):
        sheet = Sheet(device=f"/job:worker/replica:0/task:{tower}/device:GPU:0")
        read = "inputs/batch" if other is None else f"tower_{other[0]}/block_{other[1]}/add_1"
        forward(sheet, f"tower_{tower}/block_{block}", read)
        assert bytes(sheet.data) in written


def test_a_training_step_has_no_dangling_input_and_as_many_nodes_as_it_says(index) -> None:
    count, atlas = index(write_training, 20 * block_nodes())
    assert count == len(atlas)
    assert count == 20 * block_nodes() + 8 + 2 + 1
    assert atlas.notes == ()
    assert atlas.find("gradients/tower_1/block_3/AddN_1") is not None


def test_a_flat_graph_has_no_scopes(index) -> None:
    count, atlas = index(write_training, 2 * block_nodes(), flat=True)
    assert count == len(atlas)
    assert atlas.notes == ()
    assert len(atlas.scope_first) == 1


def test_a_hub_reads_the_given_number_of_nodes_and_weights_have_the_given_size(index) -> None:
    count, atlas = index(write_training, block_nodes(), hub=50, weights_bytes=64_000)
    assert (count, atlas.notes) == (len(atlas), ())
    assert len(atlas.inputs_of(atlas.find("hub/AddN"))) == 50
    start, end = atlas.bytes_in_file(atlas.find("frozen/layer_63/kernel"))
    assert 1000 < end - start < 1200


def test_one_scope_can_hold_everything_under_names_that_differ(index) -> None:
    count, atlas = index(write_wide, 500)
    assert (count, len(atlas), atlas.notes) == (500, 500, ())
    assert len(set(atlas.names(range(500)))) == 500


def test_an_event_file_holds_the_graph_with_checksums_that_match(tmp_path) -> None:
    graph, events = tmp_path / "graph.pb", tmp_path / "events.out.tfevents.1"
    with graph.open("wb") as file:
        write_wide(file, 30)
    wrap_in_events(graph, events)
    found = find_graphs(events, tmp_path)
    (span,) = found.spans
    assert (found.notes, span.notes) == ((), ())
    data = events.read_bytes()
    assert data[span.start : span.end] == graph.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    (masked,) = struct.unpack_from("<I", data, 12 + length)
    turned = (masked - 0xA282EAD8) & 0xFFFFFFFF
    assert (turned >> 17 | turned << 15) & 0xFFFFFFFF == google_crc32c.value(data[12 : 12 + length])


def test_a_block_is_read_by_its_own_gradients() -> None:
    sheet = Sheet()
    result = backward(sheet, "tower_0/block_0", forward(sheet, "tower_0/block_0", "x"))
    assert result == "gradients/tower_0/block_0/AddN_1"
    assert sheet.count == block_nodes()


# -- the suite -----------------------------------------------------------------------------------------


def test_the_suite_has_what_the_bars_ask_for() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.nodes for case in CASES if case.limits is MILLION] == [1_000_000]
    assert [case.nodes for case in CASES if case.limits is TEN_MILLION] == [10_000_000]
    assert {case.name for case in CASES if case.screens} == {"wide-10k", "wide-1m", "hub-10059", "efficientnet-step"}
    assert sorted(case.weights_bytes for case in CASES if case.weights_bytes) == [10 * MEGABYTE, 1000 * MEGABYTE]
    assert {case.form for case in CASES if case.is_real} == {"step", "trace", "saved", "frozen"}
    # TensorBoard reads event files.
    assert all(case.as_events or case.is_real for case in CASES if case.peer)


def test_the_page_of_ten_million_has_half_as_much_again() -> None:
    for name in ("drawing_ms", "server_bytes", "browser_bytes", "expand_ms", "search_ms", "blocked_ms"):
        assert getattr(TEN_MILLION, name) == 1.5 * getattr(MILLION, name)


def test_cases_are_chosen_by_a_part_of_their_name() -> None:
    assert [case.name for case in select([], quick=True)] == list(QUICK)
    assert [case.name for case in select(["WIDE", "hub"], quick=False)] == ["wide-10k", "wide-1m", "hub-10059"]
    assert select(["nothing"], quick=False) == []


# -- figures -------------------------------------------------------------------------------------------


def test_a_figure_is_the_median_and_the_worst() -> None:
    seen = runs(drawing_ms=[900.0, 2500.0, 1000.0], frames=[60.0, 20.0, 58.0])
    assert figure(seen, "drawing_ms") == Figure(1000.0, 2500.0)
    assert lowest(seen, "frames") == Figure(58.0, 20.0)
    assert Figure(1000.0, 2500.0).words(1000, 1, "s") == "1.0 (worst 2.5) s"
    assert Figure(1000.0, 1001.0).words(1000, 1) == "1.0"


def test_a_run_without_a_number_gives_no_figure_and_no_bar_holds() -> None:
    seen = runs(drawing_ms=[900.0, None])
    assert figure(seen, "drawing_ms") is None
    assert figure({"failed": "no"}, "drawing_ms") is None
    assert not bar("drawn after", figure(seen, "drawing_ms"), 2000, 1000, "s").holds


def test_the_highest_of_several_numbers_is_taken_run_by_run() -> None:
    seen = runs(one=[1, 9, 3], other=[5, 2, 4])
    assert highest(seen, "one", "other") == Figure(5, 9)
    assert highest(seen, "one", "missing") is None


def test_the_median_is_held_to_the_bar() -> None:
    good = bar("drawn after", Figure(2000, 9000), 2000, 1000, "s", 2)
    assert (good.words, good.seen, good.holds) == ("drawn after at most 2 s", "2.00 (worst 9.00) s", True)
    assert not bar("drawn after", Figure(2001, 2001), 2000, 1000, "s", 2).holds


def test_nodes_in_groups_that_are_not_open_are_folded() -> None:
    boxes = [
        {"id": "wide", "kind": "scope", "count": 100},
        {"id": "wide|Mul", "kind": "series", "count": 90},
        {"id": "wide/x", "kind": "node", "count": 1},
    ]
    assert folded_nodes(boxes, ["wide"]) == 90
    assert folded_nodes(boxes, []) == 190
    assert [box["id"] for box in openable(boxes)] == ["wide", "wide|Mul"]
    assert joined(["a/b:0", "a|b;c"]) == "a/b:0;a%7Cb%3Bc"


# -- the table -----------------------------------------------------------------------------------------


MILLION_CASE = GraphCase("scopes-1m", nodes=1_000_000, limits=MILLION, has_page=True)
INDEX = runs(nodes=[10**6], edges=[2 * 10**6], seconds=[9.0], peak_bytes=[140 * MEGABYTE], disk_bytes=[90 * MEGABYTE])


def page(**changes: object) -> dict[str, object]:
    measured = {
        "drawing_ms": 1500.0, "server_bytes": 100 * MEGABYTE, "used_server_bytes": 120 * MEGABYTE,
        "browser_bytes": 80 * MEGABYTE, "used_browser_bytes": 90 * MEGABYTE, "largest_ms": 280.0, "middle_ms": 200.0,
        "answer_ms": 100.0, "results_ms": 250.0, "task_ms": 150.0, "gap_ms": 160.0,
    }  # fmt: skip
    return {"runs": [{**measured, **changes}]}


def test_the_bars_of_a_million_nodes() -> None:
    row = GraphRow(MILLION_CASE, INDEX, page())
    assert [each.holds for each in sections.index_section([row]).bars] == [True, True]
    assert [each.holds for each in sections.page_section([row]).bars] == [True] * 6
    slow = GraphRow(MILLION_CASE, INDEX, page(middle_ms=301.0, used_server_bytes=251 * MEGABYTE, gap_ms=201.0))
    assert [each.holds for each in sections.page_section([slow]).bars] == [True, False, True, False, True, False]
    missing = GraphRow(MILLION_CASE, {"failed": "no"}, {"failed": "no"})
    assert not any(each.holds for each in sections.index_section([missing]).bars)
    assert not any(each.holds for each in sections.page_section([missing]).bars)
    assert sections.page_section([missing]).notes == ["scopes-1m: no"]


def test_a_browser_beside_the_measured_one_is_noted() -> None:
    (note,) = sections.page_section([GraphRow(MILLION_CASE, INDEX, page(other_browsers=3))]).notes
    assert note.endswith("not comparable: scopes-1m")


def test_a_screen_must_be_bounded_and_count_what_it_leaves_out() -> None:
    screen = BoundedScreen("wide")
    for seen, holds in (
        ({"drawing_ms": [1000.0], "boxes": [120], "not_shown": [9880], "said": [True]}, [True, True]),
        ({"drawing_ms": [2100.0], "boxes": [120], "not_shown": [9880], "said": [False]}, [False, False]),
        ({"drawing_ms": [1000.0], "boxes": [10_000], "not_shown": [0], "said": [True]}, [True, False]),
    ):
        row = GraphRow(GraphCase("wide-10k"), INDEX, screens=[(screen, runs(**seen))])
        assert [each.holds for each in sections.screens_section([row]).bars] == holds


def test_weights_must_not_grow_what_is_held() -> None:
    light = GraphRow(
        GraphCase("light", weights_bytes=10), runs(peak_bytes=[60 * MEGABYTE]), runs(server_bytes=[30 * MEGABYTE])
    )
    heavy = GraphRow(
        GraphCase("heavy", weights_bytes=1000), runs(peak_bytes=[71 * MEGABYTE]), runs(server_bytes=[40 * MEGABYTE])
    )
    bars = sections.weights_section([light, heavy]).bars
    assert [(each.seen, each.holds) for each in bars] == [("+11 MB", False), ("+10 MB", True)]


def test_a_peer_that_is_too_slow_is_distinguished_from_one_that_was_not_run() -> None:
    row = GraphRow(MILLION_CASE, INDEX, page(), peer=runs(drawing_ms=[None], server_bytes=[1]))
    assert [cells[2] for cells in sections.peers_section([row]).cells] == ["1.50", "not within the limit"]
    assert sections.peers_section([GraphRow(MILLION_CASE, INDEX, page())]).cells == []


def test_damaged_files_are_all_given_and_none_fails() -> None:
    def seen(inputs: int, failed: int) -> dict[str, object]:
        return {
            "inputs": inputs,
            "accepted": 1,
            "slowest_seconds": 0.1,
            "peak_bytes": 1,
            "failures": failed,
            "first": None,
        }

    def holds(**outcomes: dict[str, object]) -> bool:
        (only,) = sections.fuzz_section(outcomes).bars
        return only.holds

    assert holds(graph=seen(60_000, 0), index=seen(40_000, 0))
    assert not holds(graph=seen(60_000, 0), index=seen(40_000, 1))
    assert not holds(graph=seen(60_000, 0))
    assert not holds(graph=seen(100_000, 0), index={})


def test_the_report_is_one_document() -> None:
    found = [sections.index_section([GraphRow(MILLION_CASE, INDEX)])]
    text = to_markdown(found, {"cpu": "x"}, title="Graphs of any size", unit="MB")
    assert text.startswith("# Graphs of any size\n\nMeasured with cpu x. Sizes are in MB.\n")
    assert "| scopes-1m | 1,000,000 | 2,000,000 | n/a | 9.00 |" in text
