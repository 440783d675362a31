"""A leak that a watch found: what grows, its cause, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lowtide.units import format_bytes

FindingKey = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that grows from step to step.

    `name` is the kind of leak, `what` describes it, `who` is its cause or holder, `source` the line of the user's
    program if it is known, `fix` what to do. The growth in bytes is None if it is not larger than the noise.
    """

    name: str
    what: str
    who: str
    source: str | None
    growth_bytes_per_step: int | None
    fix: str

    @property
    def key(self) -> FindingKey:
        """What identifies a leak while its figures change: one line may fill several containers."""
        return self.name, self.source, self.who if self.name.startswith("kept") else None

    @property
    def growth(self) -> str | None:
        if self.growth_bytes_per_step is None:
            return None
        return f"{format_bytes(self.growth_bytes_per_step)} per step"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
