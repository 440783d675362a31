"""What the doctor reads: notebooks with magics and broken cells, Markdown, encodings, line ends, comments."""

import json
import warnings

import pytest

from lowtide.doctor.checkup import check_path
from lowtide.doctor.settings import DoctorSettings

BAD = "data = tf.data.Dataset.range(9).batch(3).shuffle(5)"
IMPORT = "import tensorflow as tf"


def notebook(*cells: str, **metadata) -> str:
    found = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells]
    words = {"cell_type": "markdown", "metadata": {}, "source": ["# words about tensorflow"]}
    return json.dumps({"cells": [words, *found], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def check(path, text: str | bytes, **settings):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return check_path(path, DoctorSettings(**settings))


@pytest.fixture
def book(tmp_path):
    return tmp_path / "explore.ipynb"


def test_cells_are_counted_without_those_that_are_no_code(book):
    magics = "%matplotlib inline\n!pip install keras \\\n   tensorflow\nfiles = !ls\nprint?"
    (found,) = check(book, notebook(f"%%time\n{IMPORT}", magics, f"if True:\n    %cd x\n\n{BAD}"))
    assert (found.code, found.cell, found.line, found.column) == ("LT203", 3, 4, 8)
    assert found.place == f"{book}:cell 3:4:8"
    # The line of the file, where the code begins after the quotation mark.
    line = book.read_text().splitlines()[found.region.line - 1]
    assert line[found.region.column - 1 :].startswith("tf.data.Dataset")
    assert line[: found.region.end_column - 1].endswith("shuffle(5)")


def test_a_cell_that_is_indented_as_a_whole_is_read(book):
    (found,) = check(book, notebook(IMPORT, f"  # as IPython runs it\n  {BAD}"))
    assert (found.code, found.cell, found.line) == ("LT203", 2, 2)


def test_a_cell_that_does_not_parse_is_named_and_the_others_are_read(book):
    first, second = check(book, notebook(IMPORT, "x = (1,\ny = 2 2", f"{BAD}\n"))
    assert (first.code, first.cell, first.line) == ("LT000", 2, 1)
    assert "the cell does not parse as Python 3." in first.message
    assert first.region is not None
    assert (second.code, second.cell) == ("LT203", 3)
    several, _ = check(book, notebook(IMPORT, "a b", "c d", "e f", BAD))
    assert several.message.endswith("; nor do 2 other cells")


def test_an_indented_cell_and_one_in_another_language_are_no_problems(book):
    (found,) = check(book, notebook(IMPORT, "  x = 1\n  y = 2", "%%bash\nfor x in tensorflow", BAD))
    assert found.cell == 4
    assert check(book, notebook("x <- tensorflow(1", language_info={"name": "R"})) == []


def test_a_file_of_another_kind_is_no_notebook(book):
    for text in ("[1]", "{", '{"cells": [1]}', "\xff"):
        (found,) = check(book, text.encode("latin-1"))
        assert (found.code, found.line) == ("LT000", 1)


def test_blocks_of_markdown_are_read_and_parts_of_programs_left_out(tmp_path):
    text = f"""
# tensorflow

- In a list:

    ```python
    {IMPORT}
    {BAD}
    ```

```python
def tensorflow(:
```

```bash
{BAD}
```
"""
    (found,) = check(tmp_path / "guide.md", text)
    assert (found.line, found.column, found.cell) == (8, 12, None)
    assert found.region.line == 8
    assert found.region.column == 12


@pytest.mark.parametrize("name", ["broken.py", "no_words.py"])
def test_a_file_that_does_not_parse_is_reported_where_python_stopped(tmp_path, name):
    words = f"{IMPORT}\n" if name == "broken.py" else "\n"
    (found,) = check(tmp_path / name, f"{words}print 'x'\n")
    assert (found.code, found.line, found.column) == ("LT000", 2, 1)
    assert "print" in found.message
    assert check(tmp_path / name, f"{words}print 'x'\n", ignore=("LT000",)) == []
    # What was asked for cannot be answered.
    assert len(check(tmp_path / name, f"{words}print 'x'\n", select=("LT203",))) == 1


def test_strange_files_are_reported(tmp_path):
    path = tmp_path / "strange.py"
    deep = "x = " + "-" * 20_000 + "1"
    for content in (b"\xff\xfe tensorflow", b"# coding: nonsense\n", b"tensorflow\0", deep.encode()):
        (found,) = check(path, content)
        assert found.code == "LT000", content[:40]
    path.unlink()
    path.mkdir()
    (found,) = check_path(path, DoctorSettings())
    assert "cannot be read: Is a directory" in found.message


def test_warnings_of_the_compiler_are_not_shown(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(tmp_path / "a.py", f"{IMPORT}\nx = '\\d'\nassert (x, 'y')\n") == []


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(tmp_path, ends):
    # A form feed ends no line, and neither does a line separator in a string.
    lines = [IMPORT, "\f", "x = '\u2028'", f"é = 'ä'; {BAD}"]
    (found,) = check(tmp_path / "a.py", ends.join(lines))
    assert (found.line, found.column) == (4, 17)
    assert found.excerpt == lines[-1]
    assert (found.region.line, found.region.column) == (4, 17)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_encodings_are_those_of_the_file(tmp_path, encoding):
    head = "# -*- coding: latin-1 -*-" if encoding == "latin-1" else "#"
    (found,) = check(tmp_path / "a.py", f"{head}\n{IMPORT}\né = 'ü'; {BAD}".encode(encoding))
    assert (found.line, found.column) == (3, 17)


@pytest.mark.parametrize(
    ("comment", "is_found"),
    [
        ("# lowtide: ignore", False),
        ("# lowtide: ignore[LT203]", False),
        ("# noqa  # lowtide:ignore[lt203, LT1]: a small one", False),
        ("# lowtide: ignore[LT2]", False),
        ("# lowtide: ignore[LT1]", True),
        ("# lowtide: ignored", True),
        ("'# lowtide: ignore'", True),
    ],
)
def test_a_comment_accepts_what_is_in_its_line(tmp_path, comment, is_found):
    end = f"  {comment}" if comment.startswith("#") else f"; {comment}"
    found = check(tmp_path / "a.py", f"{IMPORT}\n{BAD}{end}\n{BAD}\n")
    assert [each.line for each in found] == ([2, 3] if is_found else [3])


def test_a_comment_may_be_on_any_line_of_the_call(tmp_path):
    call = "data = tf.data.Dataset.range(9).batch(3).shuffle(\n    5,\n)  # lowtide: ignore[LT203]"
    assert check(tmp_path / "a.py", f"{IMPORT}\n{call}\n") == []


@pytest.mark.parametrize(
    ("comment", "count"),
    [("# lowtide: ignore-file", 0), ("# lowtide: ignore-file[LT203]", 0), ("# lowtide: ignore-file[LT1, LT3]", 2)],
)
def test_a_comment_accepts_what_is_in_its_file(tmp_path, comment, count):
    assert len(check(tmp_path / "a.py", f"{IMPORT}\n{BAD}\n{comment}\n{BAD}\n")) == count
    book = notebook(comment, IMPORT, BAD, BAD)
    assert len(check(tmp_path / "a.ipynb", book)) == count
    broken = check(tmp_path / "b.py", f"{comment}\ndef f(:\n")
    assert len(broken) == (0 if comment.endswith("file") else 1)
