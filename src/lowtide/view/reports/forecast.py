"""What is shown of a forecast: what a data pipeline will hold at its peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.feed.forecast.forecast import Forecast
from lowtide.units import format_bytes


@dataclass(frozen=True)
class ForecastReport:
    """A forecast, its target, and the budget if given."""

    forecast: Forecast
    target: str
    budget_bytes: int | None = None

    @property
    def fits(self) -> bool | None:
        """Whether it is expected to fit; None without a budget."""
        return None if self.budget_bytes is None else self.forecast.fits(self.budget_bytes)

    @property
    def verdict(self) -> str | None:
        """Whether it fits, in words."""
        if self.budget_bytes is None:
            return None
        budget, spare = format_bytes(self.budget_bytes), self.budget_bytes - self.forecast.peak_bytes
        if spare < 0:
            return f"does not fit in {budget}: {format_bytes(-spare)} too much"
        if self.forecast.safe_bytes > self.budget_bytes:
            return f"may exceed {budget}: the expected peak fits, the upper bound does not"
        return f"fits in {budget}, with {format_bytes(self.budget_bytes - self.forecast.safe_bytes)} to spare"

    @property
    def headline(self) -> str:
        """The answer in a line."""
        forecast = self.forecast
        return f"holds {format_bytes(forecast.peak_bytes)} at its peak, at most {format_bytes(forecast.safe_bytes)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for --json."""
        return {
            **self.forecast.to_dict(),
            "target": self.target,
            "budget_bytes": self.budget_bytes,
            "fits": self.fits,
        }
