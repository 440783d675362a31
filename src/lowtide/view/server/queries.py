"""The parameters of a request, checked against bounds, and the error of a request that is refused."""

from __future__ import annotations

from urllib.parse import parse_qs

# The name of a node in ten thousand nested scopes has tens of thousands of characters.
MOST_CHARACTERS = 60_000
_MOST_PARAMETERS = 32
_MOST_DIGITS = 15


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, error: str, cure: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.cure = cure


class Parameters:
    """The query string of an address."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise Refusal(414, "the address is too long", f"use at most {MOST_CHARACTERS:,} characters")
        try:
            self._values = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="replace")
        except ValueError:
            raise Refusal(400, "too many parameters", f"give at most {_MOST_PARAMETERS}") from None

    def text(self, name: str, most: int = MOST_CHARACTERS) -> str:
        """Return a text; "" if it is not given."""
        value = self._values.get(name, [""])[0]
        if len(value) > most:
            raise Refusal(400, f"{name} is too long", f"give at most {most:,} characters")
        return value

    def needed(self, name: str) -> str:
        """Return a text that has to be given."""
        value = self.text(name)
        if not value:
            raise Refusal(400, f"{name} is missing", f"add {name}= to the address")
        return value

    def number(self, name: str, default: int = 0, low: int = 0, high: int = 10**_MOST_DIGITS) -> int:
        """Return a whole number within bounds."""
        given = self.optional_number(name, low, high)
        return default if given is None else given

    def optional_number(self, name: str, low: int = 0, high: int = 10**_MOST_DIGITS) -> int | None:
        """Return a whole number within bounds; None if it is not given."""
        text = self.text(name)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and low <= int(text) <= high):
            raise Refusal(400, f"{name} is not a whole number from {low:,} to {high:,}", "give one")
        return int(text)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices; the first if none is given."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise Refusal(400, f"{name} is not one of {', '.join(choices)}", "give one of them")
        return text
