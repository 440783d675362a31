"""Amounts of memory as people write them; the only place that parses or formats bytes."""

import math
import operator
import re
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

_CURE = "write an amount of memory such as 8GiB, 512 MiB, 8GB, 1.5g or 8589934592"


def parse_bytes(amount: str | float | SupportsIndex) -> int:
    """Return the number of bytes that `amount` means: "8GiB", "512 MiB", "8GB", "1.5g", or a plain number.

    KiB, MiB, GiB and single letters count in 1024s, KB, MB and GB in 1000s; case does not matter.
    """
    if isinstance(amount, str):
        value = _parse_text(amount)
    elif isinstance(amount, bool) or (isinstance(amount, float) and not math.isfinite(amount)):
        raise LowtideError("not an amount of memory", given=repr(amount), cure=_CURE)
    elif isinstance(amount, float):
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
    # Decimal, because 0.1 GiB in binary floating point is off by a byte here and there.
    return int(Decimal(match["number"] + (match["exponent"] or "")) * factor)


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
