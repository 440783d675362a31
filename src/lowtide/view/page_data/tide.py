"""What the page draws of a tide, as plain data: the sampled curve, the largest buffers, the address space."""

from typing import Any

import numpy as np
import numpy.typing as npt

from lowtide.tide.address_space import free_space
from lowtide.tide.downsample import sample_events
from lowtide.tide.tide import Tide
from lowtide.view.axis import COLOURS, STACK, stack_at, ticks
from lowtide.view.reports.tide import VERDICTS, TideReport, shape_text
from lowtide.view.tiles import TILES, AddressScale, Tile, address_scale, tiles_of

_POINTS = 1200
# How many of the largest buffers are listed; the page shows the difference to the curve as the rest.
_BUFFERS = 4000


def tide_data(report: TideReport, tensor: str | None = None) -> dict[str, Any]:
    """Return what the page draws; the buffers of `tensor` are listed even if they are small."""
    tide = report.tide
    rows = np.argsort(-tide.buffers.allocated, kind="stable")[:_BUFFERS].tolist()
    rows = list(dict.fromkeys([*rows, *(row for row, name in enumerate(tide.buffers.name) if name == tensor)]))
    space = None
    if tide.buffers.address is not None:
        scale = address_scale(tide)
        tiles = tiles_of(tide, scale, TILES)
        # The user can point at a tile of a single buffer, so the page needs all of these buffers.
        rows = list(dict.fromkeys([*rows, *(tile.row for tile in tiles if tile.row is not None)]))
        space = _space_data(report, scale, tiles, rows)
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    return {
        "title": report.title,
        "method_name": tide.method,
        "verdicts": VERDICTS,
        "largest_batch": _largest_batch_data(report),
        "method": report.method_line,
        "building": report.building_line,
        "unmodelled": report.unmodelled_line,
        "recorded": report.recorded_line,
        "limit": report.limit_line,
        "free": report.free_line,
        "pinning": report.pinning_line,
        "recording": _recording_data(tide),
        "predicted": _predicted_data(report),
        "notes": [*_held_notes(report), *tide.notes],
        "peak_bytes": tide.peak_bytes,
        "safe_bytes": tide.safe_bytes,
        "budget_bytes": report.budget_bytes,
        "top_bytes": report.top_bytes,
        "peak_event": tide.peak_event,
        "peak_place": str(tide.peak_place),
        "kinds": [{"name": kind, "colour": COLOURS[kind]} for kind in STACK],
        "curve": curve_data(tide)
        | {
            "strata": stack_at(tide, events).tolist(),
            "alive": _alive_at(tide, events).tolist(),
        },
        "buffers": _buffer_data(report, rows),
        "space": space,
    }


def _space_data(report: TideReport, scale: AddressScale, tiles: list[Tile], rows: list[int]) -> dict[str, Any]:
    tide = report.tide
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    free = free_space(tide)
    place = {row: index for index, row in enumerate(rows)}
    return {
        "bytes": scale.bytes,
        "holes": report.holes_line,
        "free": free.free_bytes[events].tolist(),
        "largest": free.largest_hole_bytes[events].tolist(),
        "bands": [(_share(band.low), _share(band.high)) for band in scale.largest_bands],
        "folds": [(_share(fold.low), _share(fold.high), fold.bytes) for fold in scale.largest_folds],
        "ticks": [(_share(scale.height_of_amount(tick)), tick) for tick in ticks(scale.bytes, 7)],
        "tiles": {
            # Only merged cells have events that are not whole numbers.
            "born": [round(tile.born, 1) for tile in tiles],
            "died": [round(tile.died, 1) for tile in tiles],
            "low": [_share(tile.low) for tile in tiles],
            "high": [_share(tile.high) for tile in tiles],
            "kind": [STACK.index(tile.kind) for tile in tiles],
            "row": [None if tile.row is None else place[tile.row] for tile in tiles],
            "shade": [tile.shade for tile in tiles],
        },
    }


def _share(height: float) -> float:
    # A hundredth of a pixel.
    return round(height, 5)


def _held_notes(report: TideReport) -> list[str]:
    """Return what is held besides the step, and what to do about it."""
    return [
        *([] if report.outside_line is None else [report.outside_line]),
        *(f"held outside of the step: {line}" for line in report.outside_lines),
        *(f"held at the peak: {line}" for line in report.held_lines),
        *([] if report.process_line is None else [f"the process: {report.process_line}"]),
        *(f"a NumPy array in Python: {line}" for line in report.array_lines),
        *report.advice,
    ]


def _predicted_data(report: TideReport) -> dict[str, Any] | None:
    tide = report.predicted
    if tide is None:
        return None
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    # What is held outside of the step is not predicted; the recorded curve, on which this one is drawn, includes it.
    outside = report.outside_bytes
    return {
        "peak_bytes": tide.peak_bytes + outside,
        "gap": report.gap_text,
        "events": len(tide.curve),
        "event": events.tolist(),
        "bytes": (tide.curve.bytes_in_use[events] + outside).tolist(),
    }


def _largest_batch_data(report: TideReport) -> dict[str, Any] | None:
    if report.largest_batch is None:
        return None
    return {"batch_size": report.largest_batch.batch_size, "text": report.largest_batch_line}


def _recording_data(tide: Tide) -> dict[str, Any] | None:
    recording = tide.recording
    if recording is None:
        return None
    return {
        "allocator": recording.allocator,
        "step": recording.step,
        "steps": [(step.step, step.peak_bytes) for step in recording.steps],
    }


def curve_data(tide: Tide) -> dict[str, Any]:
    """Return samples of the curve that include its peak, with the node that ran at each."""
    events = sample_events(tide.curve.bytes_in_use, _POINTS)
    node, nodes = intern([None if event == 0 else tide.curve.nodes[tide.curve.node[event]] for event in events])
    return {
        "events": len(tide.curve),
        "event": events.tolist(),
        "bytes": tide.curve.bytes_in_use[events].tolist(),
        "node": node,
        "nodes": nodes,
    }


def named_curve_data(tide: Tide, name: str, colour: str) -> dict[str, Any]:
    """Return one of several curves of a chart."""
    peak = {"peak_bytes": tide.peak_bytes, "peak_event": tide.peak_event}
    return {"name": name, "colour": colour} | peak | curve_data(tide)


def _alive_at(tide: Tide, events: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return how many buffers are alive after each of the events."""
    born, died = np.sort(tide.buffers.born), np.sort(np.maximum(tide.buffers.died, tide.buffers.born))
    alive: npt.NDArray[np.int64] = np.searchsorted(born, events, "right") - np.searchsorted(died, events, "right")
    return alive


def _buffer_data(report: TideReport, rows: list[int]) -> dict[str, Any]:
    buffers = report.tide.buffers
    data: dict[str, Any] = {"count": len(rows), "total": len(buffers)}
    texts: dict[str, list[str | None]] = {
        "op": [buffers.op[row] for row in rows],
        "layer": [buffers.layer[row] for row in rows],
        "source": [buffers.source[row] for row in rows],
        "shape": [shape_text(buffers.dtype[row], buffers.shape[row]) for row in rows],
    }
    for name, column in texts.items():
        data[name], data[f"{name}s"] = intern(column)
    return data | {
        "name": [buffers.name[row] for row in rows],
        "kind": [STACK.index(buffers.kind_of(row)) for row in rows],
        "bytes": buffers.allocated[rows].tolist(),
        "born": buffers.born[rows].tolist(),
        "died": buffers.died[rows].tolist(),
    }


def intern(column: list[str | None]) -> tuple[list[int | None], list[str]]:
    """Return the index of each text in a table of distinct texts, and that table."""
    places: dict[str, int] = {}
    return [None if text is None else places.setdefault(text, len(places)) for text in column], list(places)
