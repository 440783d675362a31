"""Corrected files: everything that is not corrected stays as it was, to the byte."""

import json
import os
import stat

import pytest

import lowtide.doctor.settings
from lowtide import LowtideError
from lowtide.doctor.checkup import check_path
from lowtide.doctor.correction import correct_file
from lowtide.doctor.fixes import apply_edits, choose_edits
from lowtide.doctor.problem import Edit
from lowtide.doctor.settings import DoctorSettings
from tests.doctor_rules import ALL

SETTINGS = DoctorSettings()


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    monkeypatch.setattr(lowtide.doctor.settings, "all_rules", lambda: ALL)


def corrected(path, content: bytes) -> bytes:
    path.write_bytes(content)
    correction = correct_file(path, DoctorSettings())
    assert correction is not None
    correction.write()
    return path.read_bytes()


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("last", [b"", b"\n"])
def test_line_ends_stay(tmp_path, ends, last):
    lines = [b"import tensorflow as tf", b"", b"x = 1", b"y = tf.identity(x)  # \xc3\xa9"]
    expected = ends.join([*lines[:-1], b"y = x  # \xc3\xa9"]) + last.replace(b"\n", ends)
    assert corrected(tmp_path / "a.py", ends.join(lines) + last.replace(b"\n", ends)) == expected


def test_lines_that_are_added_end_as_the_others(tmp_path):
    text = b"import tensorflow as tf\r\nif tf:\r\n    tf.print('x')\r\n"
    expected = "import tensorflow as tf\r\nif tf:\r\n    import logging\r\n    logging.info('é')\r\n"
    assert corrected(tmp_path / "a.py", text) == expected.encode()


def test_encodings_stay_and_what_they_lack_is_refused(tmp_path):
    text = "# coding: latin-1\nimport tensorflow as tf\nx = tf.identity('é')\n"
    assert corrected(tmp_path / "a.py", text.encode("latin-1")) == text.replace("tf.identity('é')", "'é'").encode(
        "latin-1"
    )
    mark = b"\xef\xbb\xbf"
    begun = mark + b"import tensorflow as tf\nx = tf.identity(tf)\n"
    assert corrected(tmp_path / "b.py", begun) == mark + b"import tensorflow as tf\nx = tf\n"
    text = "# coding: ascii\nimport tensorflow as tf\ntf.print(1)\n"
    (tmp_path / "c.py").write_text(text)
    with pytest.raises(LowtideError, match="encoding"):
        correct_file(tmp_path / "c.py", SETTINGS)


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.py", tmp_path / "link.py"
    path.write_text("import tensorflow as tf\nx = tf.identity(tf)\n")
    path.chmod(0o751)
    link.symlink_to(path)
    correct_file(link, SETTINGS).write()
    assert link.is_symlink()
    assert path.read_text().endswith("x = tf\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert os.listdir(tmp_path) == unordered(["a.py", "link.py"], os.listdir(tmp_path))


def unordered(names, listed):
    return sorted(names, key=listed.index)


def test_a_file_that_changed_since_it_was_read_is_not_written(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\nx = tf.identity(tf)\n")
    correction = correct_file(path, SETTINGS)
    path.write_text("edited")
    with pytest.raises(LowtideError, match="has changed"):
        correction.write()
    assert path.read_text() == "edited"


def test_a_result_that_does_not_parse_is_not_written(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\nx = tf.square(tf.identity(2))\n")
    with pytest.raises(LowtideError, match="would not parse"):
        correct_file(path, SETTINGS)
    # Without that rule the rest is corrected.
    assert correct_file(path, DoctorSettings(ignore=("LT902",))).after.endswith("tf.square(2)\n")


def test_fixes_within_fixes_are_applied_in_turn(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\nx = tf.identity(tf.identity(tf.identity(2)))\n")
    correction = correct_file(path, SETTINGS)
    assert correction.after.endswith("x = 2\n")
    assert correction.count == 3


CELLS = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["tf.identity(1)"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "metadata": {"source": ["tf.identity(2)"]},
            "outputs": [{"data": {"text/plain": ["tf.identity(3)"]}}],
            "source": ["%time import os\n", "import tensorflow as tf\n", 'x = tf.identity("\\tü😀\\u00e9")'],
        },
        {"cell_type": "code", "metadata": {}, "source": "if x:\n    y = tf.identity(x)\n    tf.print(y)\n"},
        {"cell_type": "code", "metadata": {}, "source": []},
        {"cell_type": "code", "metadata": {}, "source": ["%time z = tf.identity(1)\n", "q = tf.identity('a/b')"]},
    ],
    "metadata": {"name": "a"},
    "nbformat": 4,
}


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_only_the_changed_strings_of_a_notebook_change(tmp_path, indent, ensure_ascii):
    text = json.dumps(CELLS, indent=indent, ensure_ascii=ensure_ascii).replace("a/b", "a\\/b") + "\n\n"
    first = json.dumps('tf.identity("\\tü😀\\u00e9")', ensure_ascii=ensure_ascii)[1:-1]
    new = json.dumps("é", ensure_ascii=ensure_ascii)[1:-1]
    expected = (
        text.replace(first, first[len("tf.identity(") : -1])
        .replace("y = tf.identity(x)", "y = x")
        .replace("tf.print(y)", rf"import logging\n    logging.info('{new}')")
        .replace("q = tf.identity('a\\/b')", "q = 'a/b'")
    )
    assert corrected(tmp_path / "a.ipynb", text.encode()) == expected.encode()


def test_lines_that_are_added_to_a_cell_are_strings_of_its_list(tmp_path):
    cells = [{"cell_type": "code", "metadata": {}, "source": ["import tensorflow as tf\n", "tf.print(1)\n", "x = 1"]}]
    path = tmp_path / "a.ipynb"
    corrected(path, json.dumps({"cells": cells}, indent=1).encode())
    lines = ["import tensorflow as tf\n", "import logging\n", "logging.info('é')\n", "x = 1"]
    cells[0]["source"] = lines
    assert path.read_text() == json.dumps({"cells": cells}, indent=1)


def test_a_line_with_a_magic_stays(tmp_path):
    path = tmp_path / "a.ipynb"
    cells = [{"cell_type": "code", "source": ["import tensorflow as tf\n", "files = !ls\n", "%time tf.identity(1)"]}]
    path.write_text(json.dumps({"cells": cells}))
    assert correct_file(path, SETTINGS) is None


def test_blocks_of_markdown_keep_their_indentation(tmp_path):
    text = (
        b"1. tf.identity(1)\r\n\r\n    ```python\r\n    import tensorflow as tf\r\n    x = tf.identity(1)\r\n"
        b"    if x:\r\n        tf.print(x)\r\n    ```\r\n"
    )
    expected = text.replace(b"x = tf.identity(1)", b"x = 1").replace(
        b"tf.print(x)", "import logging\r\n        logging.info('é')".encode()
    )
    assert corrected(tmp_path / "a.md", text) == expected


def test_a_diff_names_the_file_or_the_cell(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\nx = tf.identity(1)")
    assert correct_file(path, SETTINGS).diff() == [
        f"--- {path}\n",
        f"+++ {path}\n",
        "@@ -1,2 +1,2 @@\n",
        " import tensorflow as tf\n",
        "-x = tf.identity(1)\n\\ No newline at end of file\n",
        "+x = 1\n\\ No newline at end of file\n",
    ]
    book = tmp_path / "a.ipynb"
    book.write_text(json.dumps(CELLS))
    lines = correct_file(book, SETTINGS).diff()
    assert [line for line in lines if line.startswith("+++")] == [f"+++ {book}:cell {cell}\n" for cell in (1, 2, 4)]


def test_replacements_are_changes_of_the_file(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(CELLS, indent=1))
    for mistake in check_path(path, SETTINGS):
        for each in mistake.replacements:
            region = each.region
            assert region.line == region.end_line
            line = path.read_text().splitlines()[region.line - 1]
            assert "tf." in line[region.column - 1 : region.end_column - 1]


def test_a_correction_is_applied_whole_or_not():
    one = [Edit((0, 1), "A"), Edit((4, 5), "E")]
    other = [Edit((4, 5), "X"), Edit((2, 3), "C")]
    both = [Edit((0, 0), ">"), Edit((2, 3), "c")]
    chosen = choose_edits([one, other, both])
    assert apply_edits("abcde", chosen) == ">AbcdE"
