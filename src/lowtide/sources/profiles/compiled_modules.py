"""The compiled modules in a profile (`.xplane.pb`): TensorFlow's profiler adds every module that exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lowtide.sources.profiles.hlo import read_allocation
from lowtide.sources.profiles.hlo_module import Shape, read_parameters
from lowtide.sources.protobuf.wire import WireError, read_fields

_METADATA_PLANE = b"/host:metadata"


@dataclass(frozen=True)
class Signature:
    """The parameters of a compiled module, and the largest block that it requests when it runs."""

    parameters: tuple[Shape, ...]
    largest_block: int


def read_signatures(path: str | Path) -> tuple[Signature, ...]:
    """Return the signatures of the modules in a profile; empty if the profile is cut."""
    try:
        return tuple(_signature(data) for data in _modules(Path(path).read_bytes()))
    except WireError:
        return ()


def _modules(data: bytes) -> Iterator[bytes]:
    for plane in _parts(data, 1):
        if _METADATA_PLANE in _parts(plane, 2):
            for entry in _parts(plane, 4):
                for metadata in _parts(entry, 2):
                    for stat in _parts(metadata, 5):
                        yield from _parts(stat, 6)


def _signature(data: bytes) -> Signature:
    parameters: tuple[Shape, ...] = ()
    for module in _parts(data, 1):
        for shape in _parts(module, 4):
            parameters = read_parameters(shape)
    blocks = [read_allocation(each) for assignment in _parts(data, 3) for each in _parts(assignment, 3)]
    return Signature(parameters, max((each.size for each in blocks if each.is_requested_at_run_time), default=0))


def _parts(data: bytes, wanted: int) -> list[bytes]:
    """Return the messages in one field of a message."""
    return [value for number, value in read_fields(data) if number == wanted and isinstance(value, bytes)]
