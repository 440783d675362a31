"""The values of fields in text form, as they are on the wire."""

from __future__ import annotations

import struct

from lowtide.sources.protobuf import wire
from lowtide.sources.protobuf.encode import encode_varint, pack_float
from lowtide.sources.protobuf.text_schema import BOOLEAN, BYTES, DOUBLE, DTYPE, DTYPE_NUMBERS, FLOAT, INTEGER, Field
from lowtide.sources.protobuf.text_tokens import NUMBER, TEXT, WORD, TextError, Token

_KINDS = {
    INTEGER: wire.VARINT,
    BOOLEAN: wire.VARINT,
    DTYPE: wire.VARINT,
    FLOAT: wire.FIXED32,
    DOUBLE: wire.FIXED64,
    BYTES: wire.BYTES,
}
_BOOLEANS = {b"true": 1, b"True": 1, b"t": 1, b"1": 1, b"false": 0, b"False": 0, b"f": 0, b"0": 0}


def kind_of(field: Field) -> int:
    """How the wire calls the kind of a field that is not a message."""
    return _KINDS[field.kind]


def encode_value(field: Field, token: Token, is_negative: bool) -> bytes:
    """A single value without its tag."""
    if field.kind == BYTES:
        if token.kind != TEXT:
            raise _unexpected("a text in quotes", token)
        return encode_varint(len(token.value)) + token.value
    if field.kind == INTEGER:
        return encode_varint(_integer(token, is_negative))
    if field.kind == FLOAT:
        return pack_float(_real(token, is_negative))
    if field.kind == DOUBLE:
        return struct.pack("<d", _real(token, is_negative))
    if field.kind == BOOLEAN:
        if token.value not in _BOOLEANS:
            raise _unexpected("true or false", token)
        return encode_varint(_BOOLEANS[token.value])
    if field.kind == DTYPE:
        if token.kind == WORD and token.value in DTYPE_NUMBERS:
            return encode_varint(DTYPE_NUMBERS[token.value])
        return encode_varint(_integer(token, is_negative))
    raise TextError("a message in braces is expected, not a single value")


def _integer(token: Token, is_negative: bool) -> int:
    try:
        text = token.value.decode() if token.kind == NUMBER else ""
        is_octal = len(text) > 1 and text[0] == "0" and text.isdecimal()
        value = int(text, 8 if is_octal else 0) * (-1 if is_negative else 1)
    except ValueError:
        raise _unexpected("a whole number", token) from None
    if not -(1 << 63) <= value < 1 << 64:
        raise TextError("a number is longer than 64 bits")
    return value


def _real(token: Token, is_negative: bool) -> float:
    text = token.value.decode()
    try:
        if token.kind == TEXT:
            raise ValueError
        # 1.5f is how C writes it; inf and infinity end with no f that could be taken for it.
        value = float(text.rstrip("fF") if token.kind == NUMBER and "x" not in text.lower() else text)
    except ValueError:
        raise _unexpected("a number", token) from None
    return -value if is_negative else value


def _unexpected(wanted: str, token: Token) -> TextError:
    return TextError(f"{wanted} is expected, not {token.value[:40].decode('utf-8', 'replace')!r}")
