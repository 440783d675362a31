"""The words, numbers, texts and signs of a protocol buffer in text form, read in blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

WORD, NUMBER, TEXT, SIGN, END = "word", "number", "text", "sign", "end"

_BLOCK = 1 << 20
# No word, number or comment is as long as this.
_LONGEST = 1 << 24
# No message can be longer than this.
_LONGEST_TEXT = 1 << 31

_BLANK = re.compile(rb"(?:\s++|#[^\n]*+)*+")
# A text is matched if it has no escapes, as most have none.
_TOKEN = re.compile(
    rb"(?:\s++|#[^\n]*+\n)*+"
    rb"(?:(?P<word>[A-Za-z_][\w.]*+)"
    rb"|(?P<number>0[xX][0-9a-fA-F]++|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?[fF]?)"
    rb"|\"(?P<text>[^\"\\\n]*+)\""
    rb"|(?P<sign>[^\"'#\s]))"
)
# A field on its own, as most are: `name: "text"`, `name: -1`, `name {` or `}`, with the next one behind it.
_PLAIN = re.compile(
    rb"\s*+(?:(?P<name>[A-Za-z_]\w*+)(?::\s*+(?:\"(?P<text>[^\"\\\n]*+)\"|(?P<minus>-)?(?P<bare>[\w.]++))|\s*+(?P<open>{))"
    rb"|(?P<close>}))(?=\s*+[A-Za-z_}])"
)
# What decoding "unicode_escape" reads as the text form does. Others are read one by one.
_UNUSUAL = re.compile(rb"\\(?![0-3nrtabfv\\'\"])")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL)
# What may follow a number and belong to it, though it does not look like it yet: "e-" and a digit.
_NEAR = 3
_QUOTES = b"\"'"
_SINGLE = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class TextError(ValueError):
    """Text that is not a protocol buffer."""


class CutError(TextError):
    """Text that ends in the middle of a protocol buffer."""


class Token(NamedTuple):
    """One word, number, text (without its quotes and escapes) or sign."""

    kind: str
    value: bytes


class PlainField(NamedTuple):
    """A name with its value, or with an opening brace; without a name, a closing brace."""

    name: bytes | None
    value: Token | None
    is_negative: bool


class Tokens:
    """Gives one token after the other; memory is bounded by the longest."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._text = b""
        self._position = 0
        self._lines_before = 1
        self._is_read = False
        self._returned: Token | None = None

    @property
    def line(self) -> int:
        """The number of the line that was reached."""
        return self._lines_before + self._text.count(b"\n", 0, self._position)

    def take_plain(self) -> PlainField | None:
        """The next field, if it can be seen at once what it is; otherwise nothing is taken."""
        match = _PLAIN.match(self._text, self._position) if self._returned is None else None
        if match is None:
            return None
        self._position = match.end()
        name, text, minus, bare, _, _ = match.groups()
        if text is not None:
            return PlainField(name, Token(TEXT, text), False)
        if bare is not None:
            return PlainField(name, Token(NUMBER if bare[:1].isdigit() else WORD, bare), minus is not None)
        return PlainField(name, None, False)

    def take(self) -> Token:
        """The next token; a text is joined with those that follow it."""
        token = self._next()
        if token.kind != TEXT:
            return token
        following = self._next()
        if following.kind == TEXT:
            joined = bytearray(token.value)
            while following.kind == TEXT:
                joined += following.value
                following = self._next()
            token = Token(TEXT, bytes(joined))
        self._returned = following
        return token

    def _next(self) -> Token:
        if self._returned is not None:
            token, self._returned = self._returned, None
            return token
        while True:
            match = _TOKEN.match(self._text, self._position)
            # What comes near the end of the block may go on in the next.
            if match is not None and (match.end() + _NEAR <= len(self._text) or not self._fill()):
                self._position = match.end()
                kind = match.lastgroup or SIGN
                return Token(kind, match[kind])
            if match is None and not self._skip_blank():
                return Token(END, b"")
            if match is None and self._text[self._position] in _QUOTES:
                return Token(TEXT, self._take_text())

    def _skip_blank(self) -> bool:
        """Go to the next token; False if there is none."""
        while True:
            blank = _BLANK.match(self._text, self._position)
            end = self._position if blank is None else blank.end()
            if end < len(self._text) or not self._fill():
                self._position = end
                return end < len(self._text)

    def _take_text(self) -> bytes:
        quote = self._text[self._position : self._position + 1]
        self._position += 1
        content = bytearray()
        while True:
            end = self._closing(quote)
            stop = end if end is not None else self._safe_end()
            piece = self._text[self._position : stop]
            if b"\n" in piece:
                raise TextError("a text does not end on its line")
            content += unescape(piece)
            if len(content) > _LONGEST_TEXT:
                raise TextError("a text is longer than a message can be")
            if end is not None:
                self._position = end + 1
                return bytes(content)
            self._position = stop
            if not self._fill():
                raise CutError("the file ends in the middle of a text")

    def _closing(self, quote: bytes) -> int | None:
        """Where the text that goes on here ends; a quote behind an odd number of backslashes belongs to it."""
        end = self._text.find(quote, self._position)
        while end >= 0:
            first = end
            while first > self._position and self._text[first - 1] == 0x5C:
                first -= 1
            if (end - first) % 2 == 0:
                return end
            end = self._text.find(quote, end + 1)
        return None

    def _safe_end(self) -> int:
        """How far the block can be read without reaching into an escape that may go on in the next block."""
        last = self._text.rfind(b"\\", self._position)
        if last < 0:
            return len(self._text)
        # A backslash begins an escape if none stands before it.
        while last > self._position and self._text[last - 1] == 0x5C:
            last -= 1
        return last

    def _fill(self) -> bool:
        """Read the next block, and forget what was passed; False at the end of the file."""
        if self._is_read:
            return False
        rest = self._text[self._position :]
        if len(rest) > _LONGEST:
            raise TextError("a word or comment is longer than any should be")
        block = self._read(max(_BLOCK, len(rest)))
        if not block:
            self._is_read = True
            return False
        self._lines_before += self._text.count(b"\n", 0, self._position)
        self._text, self._position = rest + block, 0
        return True


def unescape(text: bytes) -> bytes:
    """The bytes that a text between quotes stands for."""
    if b"\\" not in text:
        return text
    if _UNUSUAL.search(text) is None:
        return text.decode("unicode_escape").encode("latin-1")
    return _ESCAPE.sub(_meaning, text)


def _meaning(escape: re.Match[bytes]) -> bytes:
    octal, hexadecimal, short, long, single = escape.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if hexadecimal is not None:
        return bytes((int(hexadecimal, 16),))
    if short is not None or long is not None:
        code = int(short or long, 16)
        return chr(code if code < 0x110000 else 0xFFFD).encode("utf-8", "replace")
    return _SINGLE.get(single, single or b"")
