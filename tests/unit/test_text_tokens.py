"""Words, numbers, texts and signs of text form, however the blocks fall in which they are read."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.sources.protobuf import text_tokens
from lowtide.sources.protobuf.text_tokens import END, NUMBER, SIGN, TEXT, WORD, CutError, TextError, Tokens, unescape


def all_tokens(tokens):
    out = []
    while (token := tokens.take()).kind != END:
        out.append(tuple(token))
    return out


def read(text):
    return all_tokens(Tokens(io.BytesIO(text).read))


SAMPLE = rb"""
# a comment with "quotes"
node { name: "a\"b" 'c' # joined
  "\000\377" attr <i: -0x1F, f:1.5e-3f> }
"""
EXPECTED = [
    (WORD, b"node"),
    (SIGN, b"{"),
    (WORD, b"name"),
    (SIGN, b":"),
    (TEXT, b'a"bc\x00\xff'),
    (WORD, b"attr"),
    (SIGN, b"<"),
    (WORD, b"i"),
    (SIGN, b":"),
    (SIGN, b"-"),
    (NUMBER, b"0x1F"),
    (SIGN, b","),
    (WORD, b"f"),
    (SIGN, b":"),
    (NUMBER, b"1.5e-3f"),
    (SIGN, b">"),
    (SIGN, b"}"),
]


def test_tokens():
    assert read(SAMPLE) == EXPECTED
    assert read(b"") == []
    assert read(b"# only a comment") == []


@pytest.mark.parametrize("block", range(1, 20))
def test_blocks_can_end_anywhere(block, monkeypatch):
    monkeypatch.setattr(text_tokens, "_BLOCK", block)
    source = io.BytesIO(SAMPLE)
    # A read may give less than it is asked for.
    assert all_tokens(Tokens(lambda size: source.read(block))) == EXPECTED


@pytest.mark.parametrize(
    ("escaped", "meant"),
    [
        (rb"\n\r\t\a\b\f\v\\\'\"\?", b"\n\r\t\a\b\f\v\\'\"?"),
        (rb"\0\12\123\1234", b"\0\n\x53\x534"),
        (rb"\x41\xF\Xfg", b"A\x0f\x0fg"),
        (rb"\u00e9\U0001F600", "é😀".encode()),
        ("é\\n".encode(), "é\n".encode()),
        (rb"\\x41\\101", rb"\x41\101"),
        (rb"\777", b"\xff"),
        (rb"\U00110000", "�".encode()),
    ],
)
def test_escapes(escaped, meant):
    assert unescape(escaped) == meant


@given(st.binary(max_size=40))
def test_bytes_written_in_octal_come_back(data):
    escaped = b"".join(b"\\%03o" % byte for byte in data)
    assert read(b'"' + escaped + b'"') == [(TEXT, data)]


def test_a_long_text_is_read_in_pieces():
    data = bytes(range(256)) * 20_000
    escaped = b"".join(b"\\%03o" % byte for byte in range(256)) * 20_000
    assert read(b"tensor_content: '" + escaped + b"'")[-1] == (TEXT, data)


def test_lines_are_counted():
    tokens = Tokens(io.BytesIO(b"a\nb\n\n\nc").read)
    assert [(tokens.take().value, tokens.line) for _ in range(3)] == [(b"a", 1), (b"b", 2), (b"c", 5)]


def test_a_text_that_does_not_end():
    with pytest.raises(CutError):
        read(b'name: "abc')
    with pytest.raises(CutError):
        read(b'name: "abc\\"')
    with pytest.raises(TextError, match="does not end on its line"):
        read(b'name: "abc\nb"')


def test_a_word_without_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(text_tokens, "_LONGEST", 1 << 12)
    monkeypatch.setattr(text_tokens, "_BLOCK", 1 << 10)
    with pytest.raises(TextError, match="longer than any should be"):
        all_tokens(Tokens(lambda size: b"a" * size))
