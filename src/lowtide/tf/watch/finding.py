"""What a watch found: one leak, who holds it, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lowtide.units import format_bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that grows from step to step.

    `name` is its kind, the same words every time; `what` says what was seen, `who` causes or holds it, `source` is the
    user's own line where that is known, `fix` what to do about it. Where the growth in bytes could not be told from the
    noise it is None.
    """

    name: str
    what: str
    who: str
    source: str | None
    growth_bytes_per_step: int | None
    fix: str

    @property
    def growth(self) -> str | None:
        if self.growth_bytes_per_step is None:
            return None
        return f"{format_bytes(self.growth_bytes_per_step)} per step"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
