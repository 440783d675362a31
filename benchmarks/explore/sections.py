"""The tables: indexes, pages, bounded screens, weights, peers, damaged files; and the bars that each is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.common.report import Bar, Section, number
from benchmarks.explore.figures import (
    Figure,
    bar,
    cell,
    disturbed,
    failures,
    figure,
    highest,
    lowest,
    megabytes,
    seconds,
)
from benchmarks.explore.suite import (
    BOUNDED_DRAWING_MS,
    FUZZED_INPUTS,
    LEAST_FRAMES,
    MEGABYTE,
    MOST_BOXES,
    MOST_GROWTH_BYTES,
    BoundedScreen,
    GraphCase,
)

Measured = Mapping[str, Any]


@dataclass(frozen=True)
class GraphRow:
    """A graph, and all that was measured of it; what was not is empty."""

    case: GraphCase
    index: Measured = field(default_factory=dict)
    page: Measured = field(default_factory=dict)
    crowd: Measured = field(default_factory=dict)
    screens: Sequence[tuple[BoundedScreen, Measured]] = ()
    peer: Measured = field(default_factory=dict)

    @property
    def nodes(self) -> int | None:
        runs = self.index.get("runs")
        return runs[0]["nodes"] if runs else None


INDEX_COLUMNS = (
    "graph", "nodes", "edges", "file", "index, s", "of which finding it, s", "processor, s", "peak", "of which its own",
    "before it", "on the disk",
)  # fmt: skip


def index_section(rows: Sequence[GraphRow]) -> Section:
    cells = []
    for row in rows:
        given = row.index
        cells.append(
            [
                row.case.name,
                number(row.nodes, 0),
                cell(figure(given, "edges")),
                megabytes(figure(given, "file_bytes")),
                cell(figure(given, "seconds"), digits=2),
                cell(figure(given, "finding_seconds"), digits=2),
                cell(figure(given, "busy_seconds"), digits=2),
                megabytes(figure(given, "peak_bytes")),
                megabytes(figure(given, "own_bytes")),
                megabytes(figure(given, "before_bytes")),
                megabytes(figure(given, "disk_bytes")),
            ]
        )
    bars = [each for row in rows for each in _index_bars(row)]
    return Section("Indexes", INDEX_COLUMNS, cells, bars, failures([(row.case.name, row.index) for row in rows]))


def _index_bars(row: GraphRow) -> Iterator[Bar]:
    limits = row.case.limits
    if limits is None:
        return
    name = f"{row.case.name}: index in"
    yield bar(name, figure(row.index, "seconds"), limits.index_seconds, 1, "s", 1)
    yield bar(name, figure(row.index, "peak_bytes"), limits.index_bytes, MEGABYTE, "MB")


PAGE_COLUMNS = (
    "graph", "first drawing, s", "server", "browser above blank", "of which not in files", "largest scope opens, ms",
    "a middle one, ms",
    "search answers, ms", "shown after, ms", "longest task, ms", "longest frame, ms",
)  # fmt: skip


def page_section(rows: Sequence[GraphRow]) -> Section:
    shown = [row for row in rows if row.page]
    cells = []
    for row in shown:
        page = row.page
        cells.append(
            [
                row.case.name,
                seconds(figure(page, "drawing_ms")),
                megabytes(_held(page, "server")),
                megabytes(_held(page, "browser")),
                megabytes(_held(page, "browser_unfiled")),
                cell(figure(page, "largest_ms")),
                cell(figure(page, "middle_ms")),
                cell(figure(page, "answer_ms")),
                cell(figure(page, "results_ms")),
                cell(figure(page, "task_ms")),
                cell(figure(page, "gap_ms")),
            ]
        )
    bars = [each for row in shown for each in _page_bars(row)]
    measured = [(row.case.name, row.page) for row in shown]
    notes = [*failures(measured), *disturbed(measured)]
    return Section("The page", PAGE_COLUMNS, cells, bars, notes)


def _held(page: Measured, place: str) -> Figure | None:
    """After the first drawing or after use, whichever is more."""
    return highest(page, f"{place}_bytes", f"used_{place}_bytes") or figure(page, f"{place}_bytes")


def _page_bars(row: GraphRow) -> Iterator[Bar]:
    limits, page, name = row.case.limits, row.page, row.case.name
    if limits is None:
        return
    yield bar(f"{name}: first drawing after", figure(page, "drawing_ms"), limits.drawing_ms, 1000, "s", 2)
    yield bar(f"{name}: server", _held(page, "server"), limits.server_bytes, MEGABYTE, "MB")
    yield bar(f"{name}: browser, above a blank page,", _held(page, "browser"), limits.browser_bytes, MEGABYTE, "MB")
    yield bar(f"{name}: a scope expands in", highest(page, "largest_ms", "middle_ms"), limits.expand_ms, 1, "ms")
    yield bar(f"{name}: search answers in", figure(page, "answer_ms"), limits.search_ms, 1, "ms")
    blocked = highest(page, "task_ms", "gap_ms")
    yield bar(f"{name}: the longest task or frame takes", blocked, limits.blocked_ms, 1, "ms")


CROWD_COLUMNS = (
    "graph", "boxes", "in sight", "drawn after, s", "longest task, ms", "frames a second", "longest frame, ms",
    "busy in a frame, ms", "browser above blank",
)  # fmt: skip


def crowd_section(rows: Sequence[GraphRow]) -> Section:
    shown = [row for row in rows if row.crowd]
    cells, bars = [], []
    for row in shown:
        crowd, frames = row.crowd, lowest(row.crowd, "frames_per_second")
        boxes = lowest(crowd, "boxes_in_sight")
        cells.append(
            [
                row.case.name,
                cell(lowest(crowd, "boxes")),
                cell(boxes),
                seconds(figure(crowd, "drawing_ms")),
                cell(figure(crowd, "task_ms")),
                cell(frames),
                cell(figure(crowd, "longest_frame_ms")),
                cell(figure(crowd, "busy_ms_a_frame"), digits=1),
                megabytes(figure(crowd, "browser_bytes")),
            ]
        )
        words = (
            f"{row.case.name}: {cell(boxes)} boxes in sight move at 60 frames a second (at least {LEAST_FRAMES:.0f})"
        )
        bars.append(Bar(words, cell(frames), frames is not None and frames.median >= LEAST_FRAMES))
    notes = failures([(row.case.name, row.crowd) for row in shown])
    return Section("As many boxes as the page draws, moved in every frame", CROWD_COLUMNS, cells, bars, notes)


SCREEN_COLUMNS = (
    "graph",
    "screen",
    "first drawing, s",
    "boxes",
    "not shown one by one",
    "the page says so",
    "longest task, ms",
)
SCREEN_WORDS = {"scope": "`{}` open", "inputs": "what `{}` reads", "details": "`{}` selected"}


def screens_section(rows: Sequence[GraphRow]) -> Section:
    shown = [(row, screen, seen) for row in rows for screen, seen in row.screens if seen]
    cells, bars = [], []
    for row, screen, seen in shown:
        drawing, boxes = figure(seen, "drawing_ms"), figure(seen, "boxes")
        said = bool(seen.get("runs")) and all(run["said"] for run in seen["runs"])
        words = SCREEN_WORDS[screen.kind].format(screen.name)
        folded = cell(figure(seen, "not_shown"))
        task = cell(figure(seen, "task_ms"))
        cells.append([row.case.name, words, seconds(drawing), cell(boxes), folded, "yes" if said else "no", task])
        name = f"{row.case.name}, {words}:"
        bars.append(bar(f"{name} drawn after", drawing, BOUNDED_DRAWING_MS, 1000, "s", 2))
        is_bounded = boxes is not None and boxes.worst <= MOST_BOXES
        counts = f"{cell(boxes)} boxes, {folded} {'counted' if said else 'not counted'}"
        bars.append(Bar(f"{name} bounded, and says what is not shown", counts, is_bounded and said))
    notes = failures([(f"{row.case.name}, {screen.name}", seen) for row, screen, seen in shown])
    return Section("Bounded screens", SCREEN_COLUMNS, cells, bars, notes)


WEIGHT_COLUMNS = (
    "graph",
    "file",
    "constants",
    "index, s",
    "index, peak",
    "server, with a constant's details",
    "browser above blank",
)


def weights_section(rows: Sequence[GraphRow]) -> Section:
    heavy = [row for row in rows if row.case.weights_bytes or row.case.form == "frozen"]
    cells = [
        [
            row.case.name,
            megabytes(figure(row.index, "file_bytes")),
            f"{row.case.weights_bytes / MEGABYTE:,.0f}" if row.case.weights_bytes else "a real model's",
            cell(figure(row.index, "seconds"), digits=2),
            megabytes(figure(row.index, "peak_bytes")),
            megabytes(figure(row.page, "server_bytes")),
            megabytes(figure(row.page, "browser_bytes")),
        ]
        for row in heavy
    ]
    given = sorted((row for row in heavy if row.case.weights_bytes), key=lambda row: row.case.weights_bytes)
    bars = list(_growth_bars(given[0], given[-1])) if len(given) > 1 else []
    return Section("Weights", WEIGHT_COLUMNS, cells, bars)


def _growth_bars(light: GraphRow, heavy: GraphRow) -> Iterator[Bar]:
    times = f"{heavy.case.weights_bytes / light.case.weights_bytes:,.0f} times the weights"
    for place, measured, name in (("index", "index", "peak_bytes"), ("server", "page", "server_bytes")):
        before, after = (figure(getattr(row, measured), name) for row in (light, heavy))
        words = f"{times}: the {place} takes at most {MOST_GROWTH_BYTES / MEGABYTE:.0f} MB more"
        if before is None or after is None:
            yield Bar(words, "no answer", False)
            continue
        growth = after.median - before.median
        yield Bar(words, f"{growth / MEGABYTE:+,.0f} MB", growth <= MOST_GROWTH_BYTES)


PEER_COLUMNS = (
    "graph", "viewer", "graph drawn after, s", "server", "browser above blank", "longest task, ms", "longest frame, ms",
)  # fmt: skip


def peers_section(rows: Sequence[GraphRow]) -> Section:
    shown = [row for row in rows if row.peer]
    cells = []
    for row in shown:
        for name, seen in (("lowtide", row.page), ("TensorBoard", row.peer)):
            drawing = figure(seen, "drawing_ms")
            cells.append(
                [
                    row.case.name,
                    name,
                    "not within the limit" if seen.get("runs") and drawing is None else seconds(drawing),
                    megabytes(figure(seen, "server_bytes")),
                    megabytes(figure(seen, "browser_bytes")),
                    cell(figure(seen, "task_ms")),
                    cell(figure(seen, "gap_ms")),
                ]
            )
    return Section(
        "Beside TensorBoard", PEER_COLUMNS, cells, (), failures([(row.case.name, row.peer) for row in shown])
    )


FUZZ_COLUMNS = ("given to", "inputs", "read", "slowest, s", "more memory at most", "failed")


def fuzz_section(outcomes: Mapping[str, Measured]) -> Section:
    cells = [
        [
            name,
            number(seen.get("inputs"), 0),
            number(seen.get("accepted"), 0),
            number(seen.get("slowest_seconds"), 2),
            number(None if "peak_bytes" not in seen else seen["peak_bytes"] / MEGABYTE, 0),
            number(seen.get("failures"), 0),
        ]
        for name, seen in outcomes.items()
    ]
    inputs, failed = (sum(seen.get(key, 0) for seen in outcomes.values()) for key in ("inputs", "failures"))
    missing = [name for name, seen in outcomes.items() if "inputs" not in seen]
    words = f"{FUZZED_INPUTS:,} damaged files: no crash, no hang, no memory past a bound"
    seen = f"{failed:,} of {inputs:,} failed" + (f"; not given to {', '.join(missing)}" if missing else "")
    notes = [f"{name}: {seen['first']}" for name, seen in outcomes.items() if seen.get("first")]
    holds = inputs >= FUZZED_INPUTS and failed == 0 and not missing
    return Section("Damaged files", FUZZ_COLUMNS, cells, [Bar(words, seen, holds)], notes)
