"""What a log says about the memory of each GPU when the program began to use it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lowtide.oom import log_patterns as patterns
from lowtide.oom.evidence import Request

# GPUs that TensorFlow 2 supports have 2 GiB or more, most of which it takes if nothing else holds it.
SMALLEST_GPU_BYTES = 1 << 30

_NUMBER = re.compile(r"GPU[:_](\d{1,3})")


@dataclass
class DeviceAtStart:
    """One GPU; fields that are not known are None."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    given_bytes: int | None = None
    """The limit of TensorFlow's allocator: most of what was free, or what the program asked for."""


class DevicesAtStart:
    """The GPUs that a log has named so far, by their numbers."""

    def __init__(self) -> None:
        self._devices: dict[int, DeviceAtStart] = {}
        self._number = 0
        """The GPU whose properties are being listed."""

    def read(self, line: bytes) -> bool:
        """Read one line, and return whether it is about the memory of a GPU."""
        if match := patterns.DEVICE_FOUND.search(line):
            self._number = int(match[1])
        elif match := patterns.DEVICE_CREATED.search(line):
            self._device(int(match[1])).given_bytes = int(match[2]) << 20
        elif match := patterns.DEVICE_MEMORY.search(line):
            device = self._device(self._number)
            device.total_bytes = patterns.read_amount(match[1])
            device.free_bytes = None if match[2] is None else patterns.read_amount(match[2])
        elif match := patterns.FREE_MEMORY.search(line):
            self._device(self._number).free_bytes = patterns.read_amount(match[1])
        else:
            return False
        return True

    def find(self, request: Request) -> DeviceAtStart:
        """Return the GPU on which a request failed; nothing is known of it if the log does not name it."""
        match = _NUMBER.search(request.device or "") or _NUMBER.search(request.allocator or "")
        if match is not None:
            return self._devices.get(int(match[1]), DeviceAtStart())
        is_elsewhere = request.device is not None or request.allocator is not None
        alone = next(iter(self._devices.values())) if len(self._devices) == 1 and not is_elsewhere else None
        return alone or DeviceAtStart()

    def is_full(self) -> bool:
        """Whether a GPU is known to have had next to no room."""
        return any(
            (device.free_bytes is not None and device.free_bytes < (device.total_bytes or 0) / 10)
            or (device.given_bytes is not None and device.given_bytes < SMALLEST_GPU_BYTES)
            for device in self._devices.values()
        )

    def _device(self, number: int) -> DeviceAtStart:
        return self._devices.setdefault(number, DeviceAtStart())
