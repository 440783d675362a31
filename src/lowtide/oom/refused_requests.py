"""Requests that the driver of a GPU refused."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RefusedRequests:
    """A run of refused requests: TensorFlow asks for a tenth less each time, until it gets some memory."""

    line: int
    """The first line of the log that names one."""
    largest_bytes: int
    least_bytes: int = field(init=False)
    count: int = 1
    is_survived: bool = False
    """Whether training went on afterwards."""

    def __post_init__(self) -> None:
        self.least_bytes = self.largest_bytes

    def add(self, amount: int) -> None:
        """Add a request."""
        self.largest_bytes, self.least_bytes = max(self.largest_bytes, amount), min(self.least_bytes, amount)
        self.count += 1
        self.is_survived = False
