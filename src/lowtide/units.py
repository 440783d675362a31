"""Amounts of memory as people write them, the only place that parses or formats bytes; and counts with nouns."""

import math
import operator
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import SupportsIndex

from lowtide.errors import LowtideError

_BINARY = ("KiB", "MiB", "GiB", "TiB", "PiB")

# A lone letter is binary, as in `docker --memory 8g` and `java -Xmx8g`; only the full "GB" is decimal.
_FACTORS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
for _power, _name in enumerate(_BINARY, start=1):
    _letter = _name[0].lower()
    _FACTORS[_letter] = _FACTORS[f"{_letter}i"] = _FACTORS[f"{_letter}ib"] = 1024**_power
    _FACTORS[f"{_letter}b"] = 1000**_power

_AMOUNT = re.compile(
    r"\s*(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<exponent>e\+?\d{1,2})?\s*(?P<unit>[a-z]*)\s*", re.IGNORECASE
)

_SHARE = re.compile(r"\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*%\s*")

_CURE = "write an amount of memory such as 8GiB, 512 MiB, 8GB, 1.5g or 8589934592"
_GROWTH_CURE = "write a share such as 5% or an amount such as 200MiB"


def parse_bytes(amount: str | float | SupportsIndex) -> int:
    """Return the number of bytes that `amount` means: "8GiB", "512 MiB", "8GB", "1.5g", or a plain number.

    KiB, MiB, GiB and single letters count in 1024s, KB, MB and GB in 1000s; case does not matter.
    """
    if isinstance(amount, str):
        value = _parse_text(amount)
    elif isinstance(amount, bool) or (isinstance(amount, float) and not math.isfinite(amount)):
        raise LowtideError("not an amount of memory", given=repr(amount), cure=_CURE)
    elif isinstance(amount, float):
        if not amount.is_integer():
            raise _not_whole(amount)
        value = int(amount)
    else:
        try:
            value = operator.index(amount)
        except TypeError:
            raise LowtideError("not an amount of memory", given=repr(amount), cure=_CURE) from None
    if value <= 0:
        raise LowtideError("an amount of memory must be at least one byte", given=repr(amount), cure=_CURE)
    return value


def _parse_text(text: str) -> int:
    match = _AMOUNT.fullmatch(text)
    factor = _FACTORS.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise LowtideError("not an amount of memory", given=repr(text), cure=_CURE)
    # Decimal, because binary floating point can be wrong by one byte, for 0.1 GiB for example.
    value = Decimal(match["number"] + (match["exponent"] or "")) * factor
    if not match["unit"] and value != int(value):
        raise _not_whole(text)
    return int(value)


def _not_whole(amount: object) -> LowtideError:
    cure = f'write "{str(amount).strip()}GiB" for gibibytes; a number without a unit is a number of bytes'
    return LowtideError("a number of bytes must be whole", given=repr(amount), cure=cure)


@dataclass(frozen=True)
class GrowthLimit:
    """The largest allowed growth: a share of the earlier amount, or a number of bytes; the other one is None."""

    share: Decimal | None
    bytes: int | None

    def above(self, before_bytes: int) -> int:
        """Return the number of bytes that are allowed in addition to `before_bytes`."""
        return int(before_bytes * self.share) if self.share is not None else (self.bytes or 0)

    def __str__(self) -> str:
        return format_bytes(self.bytes or 0) if self.share is None else f"{(self.share * 100).normalize():f}%"


def parse_growth(growth: str | float | SupportsIndex | GrowthLimit) -> GrowthLimit:
    """Parse a growth limit: "5%" or 0.05 is a share, "200MiB" or an integer is a number of bytes."""
    if isinstance(growth, GrowthLimit):
        return growth
    if isinstance(growth, str):
        return _parse_growth_text(growth)
    if isinstance(growth, bool) or (isinstance(growth, float) and not math.isfinite(growth)):
        raise LowtideError("not an amount of growth", given=repr(growth), cure=_GROWTH_CURE)
    if isinstance(growth, float):
        found = GrowthLimit(Decimal(str(float(growth))), None)
    else:
        try:
            found = GrowthLimit(None, operator.index(growth))
        except TypeError:
            raise LowtideError("not an amount of growth", given=repr(growth), cure=_GROWTH_CURE) from None
    if (found.share or found.bytes or 0) < 0:
        raise LowtideError("a growth cannot be negative", given=repr(growth), cure=_GROWTH_CURE)
    return found


def _parse_growth_text(text: str) -> GrowthLimit:
    share, amount = _SHARE.fullmatch(text), _AMOUNT.fullmatch(text)
    if share is not None:
        return GrowthLimit(Decimal(share["number"]) / 100, None)
    # A lone "5" would mean five bytes, which is surely a mistake.
    if amount is None or amount["unit"].lower() not in _FACTORS or (not amount["unit"] and text.strip() != "0"):
        raise LowtideError("not an amount of growth", given=repr(text), cure=_GROWTH_CURE)
    return GrowthLimit(None, _parse_text(text))


def format_change(count: int) -> str:
    """Return a change of `count` bytes with its sign: "+1.5 KiB", "-97.8 MiB", "0 B"."""
    return f"{'+' if count > 0 else ''}{format_bytes(count)}"


def format_growth(growth: float | None) -> str:
    """Return a growth as a person reads it: "+10.3%", "-4.0%", "no change", or "from nothing" for None."""
    if growth is None:
        return "from nothing"
    if growth == 0:
        return "no change"
    if abs(growth) < 0.0005:
        return f"{'+' if growth > 0 else '-'}<0.1%"
    return f"{growth:+.1%}" if growth < 10 else f"{growth:+,.0%}"


def format_bytes(count: int) -> str:
    """Return `count` bytes as a person reads it: "6.41 GiB", "97.8 MiB", "8 GiB", "512 B"."""
    sign, size = ("-" if count < 0 else ""), float(abs(count))
    if size < 1024:
        return f"{sign}{int(size)} B"
    for unit in _BINARY:
        size /= 1024
        # 1023.95 would be printed as "1024.0", which belongs to the next unit.
        if size < 1023.95 or unit == _BINARY[-1]:
            break
    text = f"{size:.2f}" if size < 9.995 else f"{size:.1f}"
    return f"{sign}{text.rstrip('0').rstrip('.')} {unit}"


def format_bytes_up(count: int) -> str:
    """Return `count` bytes rounded up, so that the text given as a budget is not below them."""
    rounded = count
    while parse_bytes(format_bytes(rounded)) < count:
        rounded += max(1, count // 1000)
    return format_bytes(rounded)


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: "1 step", "1,200 steps", "0 batches". `plural` is for irregular nouns."""
    return f"{count:,} {noun if count == 1 else plural or _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
