"""Reports of a recorded step: what is said, and the pictures of its addresses and of several curves."""

import io
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from lowtide.errors import LowtideError
from lowtide.simulator.bfc import BfcAllocator
from lowtide.tide.columns import Buffers, Building, Curve
from lowtide.tide.kinds import KINDS
from lowtide.tide.tide import Tide
from lowtide.view.pictures.address_space import render_address_picture
from lowtide.view.pictures.overlay import render_overlay
from lowtide.view.pictures.tide_svg import render_picture
from lowtide.view.reports.tide import TideReport
from lowtide.view.terminal.report import TerminalReport
from lowtide.view.tiles import TILES, address_scale, tiles_of
from tests.pages import read_data, tide_page

SVG = "{http://www.w3.org/2000/svg}"


def printed(report: TideReport, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(TerminalReport(report))
    return " ".join(console.file.getvalue().split())


def recorded(tide: Tide, **changes) -> Tide:
    return replace(tide, recording=replace(tide.recording, **changes))


@pytest.mark.parametrize(
    ("peak", "line"),
    [
        (8809, "predicted 8.6 KiB: 1.2% above the recorded peak"),
        (8600, "predicted 8.4 KiB: 1.2% below the recorded peak"),
        (8704, "predicted 8.5 KiB: within 0.1% of the recorded peak"),
    ],
)
def test_the_gap_to_the_prediction(recorded_tide, tide, peak, line):
    report = TideReport(recorded_tide, predicted=replace(tide, peak_bytes=peak))
    assert report.gap_line == line
    assert line in printed(report)
    assert line.partition(": ")[2] in render_picture(report)
    data = report.to_dict()["predicted"]
    assert data == {"peak_bytes": peak, "safe_bytes": 9216, "gap": peak / 8704 - 1}


def test_without_a_prediction_the_report_has_none(recorded_tide):
    report = TideReport(recorded_tide)
    assert report.gap_line is None
    assert report.to_dict()["predicted"] is None
    assert "predicted" not in printed(report)
    assert "polyline" not in render_picture(report)


def test_which_step_it_was_and_how_the_steps_differ(recorded_tide, tide):
    steps = recorded_tide.recording.steps
    line = "recorded in step 12; the peaks of steps 11 to 13 are 8 KiB to 8.5 KiB"
    assert TideReport(recorded_tide).recorded_line == line
    assert line in printed(TideReport(recorded_tide))
    assert TideReport(recorded(recorded_tide, steps=steps[1:2])).recorded_line == "recorded in step 12"
    alike = recorded(recorded_tide, steps=tuple(replace(step, peak_bytes=8704) for step in steps))
    assert TideReport(alike).recorded_line == "recorded in step 12; steps 11 to 13 have the same peak"
    assert TideReport(tide).recorded_line is None


def test_free_memory_at_the_peak(recorded_tide, tide):
    holes = "of the 512 B that are free between the buffers at the peak, the largest block is 512 B"
    own = "of all that the allocator has free, 25% is outside its largest block"
    report = TideReport(recorded_tide)
    assert report.free_line == f"{holes}; {own}"
    assert holes in printed(report)
    data = report.to_dict()["free_at_peak"]
    assert data == {"free_bytes": 512, "largest_bytes": 512, "holes": 1, "fragmentation": 0.0, "pinnings": []}
    # A record without addresses, and an allocator that has nothing free.
    no_addresses = replace(recorded_tide, buffers=tide.buffers)
    assert TideReport(no_addresses).free_line == own
    assert TideReport(recorded(recorded_tide, fragmentation=math.nan)).free_line == holes
    assert TideReport(recorded(no_addresses, fragmentation=math.nan)).free_line is None
    assert TideReport(tide).free_line is None
    assert TideReport(tide).to_dict()["free_at_peak"] is None


def fragmented(tide: Tide, share: float) -> Tide:
    """Return the tide with x between what Relu and the workspace leave free at the peak, 4096 and 512 bytes."""
    address, died = tide.buffers.address.copy(), tide.buffers.died.copy()
    address[[3, 2, 4, 1, 5]] = 0, 4096, 4608, 5120, 7168
    died[3] = 3
    return recorded(replace(tide, buffers=replace(tide.buffers, address=address, died=died)), fragmentation=share)


def test_the_buffers_between_holes_are_named_when_they_matter(recorded_tide):
    report = TideReport(fragmented(recorded_tide, 0.6))
    assert report.fragmented
    assert report.pinning_line == "x:0 (512 B) splits 4.5 KiB"
    assert "split by x:0 (512 B) splits 4.5 KiB" in printed(report)
    assert report.to_dict()["free_at_peak"]["pinnings"][0]["hole_bytes"] == 4608
    # The allocator has a large free block elsewhere, so the holes of this step do not matter.
    assert TideReport(fragmented(recorded_tide, 0.1)).pinning_line is None


def test_a_limit_is_reported(recorded_tide):
    limited = TideReport(recorded(recorded_tide, limit_bytes=10240))
    assert limited.limit_line == "10 KiB, of which 1.5 KiB were not in use at the peak"
    assert limited.limit_line in printed(limited)
    assert TideReport(recorded_tide).limit_line is None


def test_unknown_facts_about_building_are_left_out(recorded_tide):
    assert TideReport(recorded_tide).building_line is None
    assert "building" not in printed(TideReport(recorded_tide))
    some = replace(recorded_tide, building=Building(0, 21, 0, None))
    assert TideReport(some).building_line == "21 executed"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_exceeds_the_terminal(recorded_tide, tide, width):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(TerminalReport(TideReport(fragmented(recorded_tide, 0.6), 10240, predicted=tide)))
    assert max(len(line) for line in console.file.getvalue().splitlines()) <= width


def test_several_curves_over_each_other(recorded_tide, tide, tide_factory):
    short = tide_factory(rows=tide_rows(tide, 3), curve=[100, 4096, 200], node=[0, 0, 1], peak_bytes=4096)
    root = ElementTree.fromstring(render_overlay([recorded_tide, tide, short], ["recorded", "predicted", "<planned>"]))
    assert "recorded 8.5 KiB, predicted 8.5 KiB, <planned> 4 KiB" in root.find(f"{SVG}title").text
    lines = list(root.iter(f"{SVG}polyline"))
    assert [line.find(f"{SVG}title").text for line in lines][2] == "<planned> 4 KiB"
    points = [[tuple(map(float, point.split(","))) for point in line.get("points").split()] for line in lines]
    # Each takes the whole width, however many events it has, and higher is more.
    assert len({(line[0][0], line[-1][0]) for line in points}) == 1
    assert [len(line) for line in points] == [7, 7, 3]
    assert points[0] == points[1]
    assert min(y for _, y in points[0]) < min(y for _, y in points[2])
    assert len({line.get("stroke") for line in lines}) == 3
    with pytest.raises(ValueError, match="argument 2"):
        render_overlay([tide], ["one", "two"])


def tide_rows(tide: Tide, count: int) -> list[tuple]:
    return [(name, "Op", None, "other", "uint8", None, 1, 1, 0, 1, None) for name in tide.buffers.name[:count]]


def test_the_prediction_is_drawn_over_the_recorded_areas(recorded_tide, tide):
    root = ElementTree.fromstring(render_picture(TideReport(recorded_tide, predicted=tide)))
    (line,) = root.iter(f"{SVG}polyline")
    assert line.find(f"{SVG}title").text == "predicted"
    # A prediction above the record stays in the picture.
    high = replace(tide, peak_bytes=20000)
    assert TideReport(recorded_tide, predicted=high).top_bytes > 20000


def test_the_address_picture_shows_each_buffer_with_its_name(recorded_tide):
    root = ElementTree.fromstring(render_address_picture(TideReport(recorded_tide)))
    label = root.find(f"{SVG}title").text
    assert "9 KiB that are in use at some moment" in label
    assert "the largest block is 512 B" in label
    titles = [path.find(f"{SVG}title").text for path in root.iter(f"{SVG}path") if path.get("class") == "tile"]
    assert len(titles) == 6
    assert "dense/Relu:0 · dense · activations · 4 KiB · float32 100×10" in titles
    folds = [path.find(f"{SVG}title").text for path in root.iter(f"{SVG}path") if path.get("class") == "fold"]
    assert folds == ["1016 KiB that no buffer of this step covers, folded"]


def test_a_tide_without_addresses_has_no_such_picture(tide):
    with pytest.raises(LowtideError, match="no addresses"):
        render_address_picture(TideReport(tide))


def test_a_gap_takes_little_of_the_height_and_the_rest_is_to_scale(recorded_tide):
    scale = address_scale(recorded_tide)
    low, high = scale.height_of(np.array([0, 8192])).tolist()
    kernel = scale.height_of(np.array([2**20, 2**20 + 1024])).tolist()
    assert low == 0
    assert kernel[1] == pytest.approx(1)
    assert (high - low) / (kernel[1] - kernel[0]) == pytest.approx(8)
    assert 0 < kernel[0] - high <= 0.021
    assert scale.height_of_amount(9216) == pytest.approx(1)
    assert scale.height_of_amount(8192) == pytest.approx(high)


def worn(count: int) -> Tide:
    """Return a tide of `count` buffers of many sizes, placed as the allocator places them."""
    random = np.random.default_rng(0)
    allocator = BfcAllocator()
    alive, rows, curve, event = [], [], [0], 0
    for size in (2 ** random.uniform(8, 22, count)).astype(int).tolist():
        event += 1
        address = allocator.allocate(size)
        alive.append((address, size, allocator.chunk_bytes(address), event))
        curve.append(allocator.bytes_in_use)
        while len(alive) > 200:
            event += 1
            freed = alive.pop(int(random.integers(len(alive))))
            allocator.free(freed[0])
            rows.append((*freed, event))
            curve.append(allocator.bytes_in_use)
    rows += [(*buffer, event + 1) for buffer in alive]
    address, requested, allocated, born, died = np.array(rows, np.int64).T
    buffers = Buffers(
        name=[f"node_{row}:0" for row in range(count)],
        op=["Op"] * count,
        layer=[None] * count,
        kind=random.integers(0, len(KINDS), count).astype(np.uint8),
        dtype=["float32"] * count,
        shape=[None] * count,
        requested=requested,
        allocated=allocated,
        born=born.astype(np.int32),
        died=died.astype(np.int32),
        source=[None] * count,
        address=address - address.min(),
    )
    nodes = Curve(np.array(curve, np.int64), np.zeros(len(curve), np.int32), ["node"])
    return Tide("worn.py", "recorded", None, max(curve), max(curve), buffers, nodes, Building(0, 0, 0, None))


@pytest.fixture(scope="module")
def worn_tide() -> Tide:
    return worn(20_000)


def test_a_picture_of_very_many_buffers_stays_light(worn_tide):
    picture = render_address_picture(TideReport(worn_tide))
    assert len(list(ElementTree.fromstring(picture).iter())) < 3000
    assert len(picture) < 1_000_000
    assert len(tide_page(TideReport(worn_tide))) < 3_000_000


def test_the_largest_buffers_are_exact_and_the_small_ones_merged(worn_tide):
    scale = address_scale(worn_tide)
    tiles = tiles_of(worn_tide, scale, TILES)
    assert len(tiles) <= TILES
    buffers = worn_tide.buffers
    exact = {tile.row: tile for tile in tiles if tile.row is not None}
    assert len(exact) == TILES // 2
    areas = buffers.allocated * (buffers.died - buffers.born)
    for row in np.argsort(-areas)[:100].tolist():
        tile = exact[row]
        assert (tile.born, tile.died, tile.kind) == (buffers.born[row], buffers.died[row], buffers.kind_of(row))
        assert tile.low == scale.height_of(buffers.address[row : row + 1])[0]
    merged = [tile for tile in tiles if tile.row is None]
    assert merged
    assert all(0 < tile.shade <= 1 for tile in merged)
    # A cell is as dark as what it stands for, rounded up to the next of four shades.
    heights = scale.height_of(buffers.address + buffers.allocated) - scale.height_of(buffers.address)
    rest = sum(
        heights[row] * (buffers.died[row] - buffers.born[row]) for row in range(len(buffers)) if row not in exact
    )
    shown = sum((tile.high - tile.low) * (tile.died - tile.born) * tile.shade for tile in merged)
    assert 0.95 * rest < shown < 3 * rest


def test_few_buffers_are_all_drawn_exactly(recorded_tide):
    tiles = tiles_of(recorded_tide, address_scale(recorded_tide), TILES)
    assert sorted(tile.row for tile in tiles) == list(range(6))


def test_the_page_has_the_space_and_the_prediction(recorded_tide, tide):
    def data(report):
        return read_data(tide_page(report))

    page = data(TideReport(recorded_tide, predicted=tide))
    assert page["space"]["free"] == [5632, 1536, 1024, 1536, 512, 4608, 5632]
    tiles, buffers = page["space"]["tiles"], page["buffers"]
    names = {buffers["name"][row] for row in tiles["row"]}
    assert names == set(recorded_tide.buffers.name)
    assert page["predicted"]["bytes"] == tide.curve.bytes_in_use.tolist()
    assert page["building"] is None
    plain = data(TideReport(tide))
    assert (plain["space"], plain["predicted"], plain["recorded"]) == (None, None, None)


def test_a_recorded_tide_with_nothing_in_it_is_drawn_too(recorded_tide):
    empty = replace(
        recorded_tide,
        buffers=replace(recorded_tide.buffers, allocated=np.zeros(6, np.int64), requested=np.zeros(6, np.int64)),
        curve=Curve(np.zeros(7, np.int64), recorded_tide.curve.node, recorded_tide.curve.nodes),
        peak_bytes=0,
        safe_bytes=0,
    )
    report = TideReport(empty, predicted=empty)
    ElementTree.fromstring(render_address_picture(report))
    ElementTree.fromstring(render_overlay([empty], ["empty"]))
    assert "before the step" in tide_page(report)
    assert "nothing is free" in printed(report)
