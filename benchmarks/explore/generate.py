"""Graphs of any size, written node by node without TensorFlow.

python -m benchmarks.explore.generate OUT.pb --nodes 1000000 [--flat] [--hub 10059] [--weights 1000000000] [--events]
python -m benchmarks.explore.generate OUT.pb --nodes 1000000 --wide

A graph is a transformer's training step: towers of blocks forward, their gradients backward, Adam's updates, and for
each tower a node that waits for all of its updates.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import BinaryIO

import google_crc32c
import numpy as np

from benchmarks.explore.block import (
    FLOAT,
    HYPERPARAMETERS,
    Sheet,
    backward,
    find_template,
    forward,
    variables,
)
from lowtide.sources.protobuf.encode import dtype_attribute, encode_bytes, encode_integer, encode_tag, encode_varint

_MOST_TOWERS = 64
_WEIGHTS = 64
_PIECE_BYTES = 16 << 20
_OPS = ("MatMul", "BiasAdd", "Relu", "Mul", "AddV2", "Reshape", "Transpose", "Sum", "Cast")
# A GraphDef ends with the versions that it was made for.
_VERSIONS = encode_bytes(4, encode_integer(1, 2164))


def write_training(file: BinaryIO, nodes: int, *, flat: bool = False, hub: int = 0, weights_bytes: int = 0) -> int:
    """Write a training step of about `nodes` nodes; return their exact number.

    With `hub` one node reads that many others. With `weights_bytes` a fixed number of constants holds that many bytes.
    """
    blocks = max(round(nodes / block_nodes()), 1)
    towers = min(max(round(blocks**0.5 / 2), 1), _MOST_TOWERS)
    order = [(tower, block) for tower in range(towers) for block in range(tower, blocks, towers)]
    order = [(tower, block // towers) for tower, block in order]
    sheet = Sheet(flat=flat)
    sheet.add("model/epsilon", "Const", (), ())
    for name in HYPERPARAMETERS:
        sheet.add(f"train/{name}", "Const", (), ())
    sheet.add("inputs/batch", "Placeholder")
    file.write(sheet.data)
    for piece in _blocks("forward", order, [None, *order[:-1]], flat=flat):
        file.write(piece)
    order.reverse()
    for piece in _blocks("backward", order, [None, *order[:-1]], flat=flat):
        file.write(piece)
    sheet.data.clear()
    _add_groups(sheet, order)
    if hub:
        read = [f"hub/part_{number}" for number in range(hub)]
        for name in read:
            sheet.add(name, "Identity", ("model/epsilon",), ())
        sheet.add("hub/AddN", "AddN", read, ())
    file.write(sheet.data)
    weights = _write_weights(file, weights_bytes) if weights_bytes else 0
    file.write(_VERSIONS)
    return sheet.count + len(order) * block_nodes() + weights


@lru_cache(maxsize=1)
def block_nodes() -> int:
    """How many nodes a block has, forward, backward and in its updates."""
    sheet = Sheet()
    backward(sheet, "block", forward(sheet, "block", "x"))
    return sheet.count


Place = tuple[int, int]
"""A tower, and a block in it."""


def _blocks(direction: str, order: list[Place], before: list[Place | None], *, flat: bool) -> Iterator[bytes]:
    """All blocks in order. Those whose numbers have as many digits have the same bytes but for the digits."""
    pairs = zip(order, before, strict=True)
    for widths, alike in groupby(pairs, key=lambda pair: _widths(*pair)):
        chosen = [(place, other or (0, 0)) for place, other in alike]
        columns = np.array(chosen, np.int64).reshape(-1, 4).T
        names = [name for name, _ in widths]
        template = find_template(_maker(direction, flat, len(names) == 2), widths)
        yield from template.stamp(dict(zip(names, columns, strict=False)))


def _widths(place: Place, other: Place | None) -> tuple[tuple[str, int], ...]:
    numbers = {"tower": place[0], "block": place[1]}
    if other is not None:
        numbers |= {"other_tower": other[0], "other_block": other[1]}
    return tuple((name, len(str(number))) for name, number in numbers.items())


@lru_cache(maxsize=8)
def _maker(direction: str, flat: bool, is_first: bool) -> partial[bytes]:
    """Cached, because templates are found again by the function that makes them."""
    return partial(_make, direction, flat, is_first)


def _make(
    direction: str, flat: bool, is_first: bool, tower: str, block: str, other_tower: str = "", other_block: str = ""
) -> bytes:
    sheet = Sheet(flat=flat, device=f"/job:worker/replica:0/task:{tower}/device:GPU:0")
    scope, other = f"tower_{tower}/block_{block}", f"tower_{other_tower}/block_{other_block}"
    if direction == "forward":
        forward(sheet, scope, "inputs/batch" if is_first else f"{other}/add_1")
        return bytes(sheet.data)
    gradient = f"{scope}/add_1" if is_first else f"gradients/{other}/AddN_1"
    backward(sheet, scope, gradient)
    return bytes(sheet.data)


def _add_groups(sheet: Sheet, order: Iterable[Place]) -> None:
    """For each tower a node that waits for its updates, and one that waits for these."""
    updates: dict[int, list[str]] = {}
    for tower, block in order:
        names = (name for name, _ in variables(f"train/tower_{tower}/block_{block}"))
        updates.setdefault(tower, []).extend(f"^{name}/ResourceApplyAdam" for name in names)
    groups = [sheet.add(f"train/group_tower_{tower}", "NoOp", names) for tower, names in updates.items()]
    sheet.add("train/step", "NoOp", [f"^{group}" for group in groups])


def _write_weights(file: BinaryIO, size: int) -> int:
    """Write constants of `size` bytes in total and a matrix product for each; return the number of nodes."""
    each = size // _WEIGHTS
    for number in range(_WEIGHTS):
        _write_constant(file, f"frozen/layer_{number}/kernel", each)
        sheet = Sheet()
        sheet.add(f"frozen/layer_{number}/MatMul", "MatMul", ("inputs/batch", f"frozen/layer_{number}/kernel"))
        file.write(sheet.data)
    return 2 * _WEIGHTS


def _write_constant(file: BinaryIO, name: str, size: int) -> None:
    """Write a constant of any size without holding it: the lengths of the enclosing messages are computed first."""
    size -= size % 4
    shape = encode_bytes(2, encode_bytes(2, encode_integer(1, size // 4)))
    tensor = encode_integer(1, FLOAT) + shape + encode_tag(4) + encode_varint(size)
    value = encode_tag(8) + encode_varint(len(tensor) + size) + tensor
    entry = encode_bytes(1, "value") + encode_tag(2) + encode_varint(len(value) + size) + value
    dtype = encode_bytes(5, encode_bytes(1, "dtype") + encode_bytes(2, dtype_attribute(FLOAT)))
    node = encode_bytes(1, name) + encode_bytes(2, "Const") + dtype
    node += encode_tag(5) + encode_varint(len(entry) + size) + entry
    file.write(encode_tag(1) + encode_varint(len(node) + size) + node)
    piece = Random(size).randbytes(min(size, _PIECE_BYTES))
    for start in range(0, size, _PIECE_BYTES):
        file.write(piece[: min(_PIECE_BYTES, size - start)])


def write_wide(file: BinaryIO, nodes: int) -> int:
    """Write one scope of `nodes` nodes: two in three have numbered names, one in three has a random name."""
    random, sheet = Random(0), Sheet()
    names: list[str] = []
    counts = dict.fromkeys(_OPS, 0)
    for number in range(nodes):
        op = _OPS[number % len(_OPS)]
        counts[op] += 1
        label = f"{random.getrandbits(40):010x}" if number % 3 == 2 else f"{op}_{counts[op]}"
        read = [names[-1], names[random.randrange(len(names))]] if names else []
        names.append(sheet.add(f"wide/{label}", op, read))
        if len(sheet.data) > _PIECE_BYTES:
            file.write(sheet.data)
            sheet.data.clear()
    file.write(sheet.data + _VERSIONS)
    return sheet.count


def wrap_in_events(graph: Path, events: Path) -> None:
    """An event file that holds a graph, as TensorFlow's writers make it; streamed."""
    time = b"\x09" + struct.pack("<d", 1_700_000_000.0)
    size = graph.stat().st_size
    with graph.open("rb") as source, events.open("wb") as file:
        first = time + encode_bytes(3, "brain.Event:2")
        _write_record(file, len(first), [first])
        head = time + encode_tag(4) + encode_varint(size)
        _write_record(file, len(head) + size, [head], iter(lambda: source.read(_PIECE_BYTES), b""))


def _write_record(file: BinaryIO, size: int, *pieces: Iterable[bytes]) -> None:
    length = struct.pack("<Q", size)
    file.write(length + _masked(google_crc32c.value(length)))
    checksum = 0
    for several in pieces:
        for piece in several:
            checksum = google_crc32c.extend(checksum, piece)
            file.write(piece)
    file.write(_masked(checksum))


def _masked(checksum: int) -> bytes:
    """A checksum as records hold it: turned and shifted, so that it differs from one of a checksum."""
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--nodes", type=int, required=True, help="about how many")
    parser.add_argument("--flat", action="store_true", help="no scopes: everything lies in the root")
    parser.add_argument("--hub", type=int, default=0, help="how many other nodes one node reads")
    parser.add_argument("--weights", type=int, default=0, help="bytes of constants in total")
    parser.add_argument("--wide", action="store_true", help="one scope of all nodes")
    parser.add_argument("--events", action="store_true", help="also an event file, in a folder of the same name")
    chosen = parser.parse_args()
    with chosen.out.open("wb") as file:
        if chosen.wide:
            count = write_wide(file, chosen.nodes)
        else:
            options = {"flat": chosen.flat, "hub": chosen.hub, "weights_bytes": chosen.weights}
            count = write_training(file, chosen.nodes, **options)
    if chosen.events:
        folder = chosen.out.with_suffix("")
        folder.mkdir(exist_ok=True)
        wrap_in_events(chosen.out, folder / "events.out.tfevents.1700000000.benchmark")
    print(f"{count:,} nodes, {chosen.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
