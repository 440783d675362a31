"""The pure parts of benchmarks/doctor: verdicts, snippets, and what a fix may change."""

from pathlib import Path

import pytest
from benchmarks.doctor.fixes import compare
from benchmarks.doctor.real import _judged, check_one, files_of, repositories
from benchmarks.doctor.snippets import count_parts
from benchmarks.doctor.verdicts import FILE, RIGHT, WRONG, Verdict, digest, read_verdicts, write_verdicts


def test_a_digest_does_not_depend_on_indentation():
    assert digest(["  x = 1", "    y"]) == digest(["x = 1 ", "y"]) != digest(["x = 2", "y"])
    assert len(digest(["x"])) == 12


def test_verdicts_are_kept_in_order(tmp_path: Path):
    given = [
        Verdict("b/b", "b.py", "LT101", "1" * 12, WRONG, 'a "quote"'),
        Verdict("a/a", "a.py", "LT1", "", RIGHT, ""),
    ]
    path = tmp_path / "verdicts.tsv"
    write_verdicts(given, path)
    assert list(read_verdicts(path).values()) == sorted(given)


def test_another_word_is_no_verdict(tmp_path: Path):
    path = tmp_path / "verdicts.tsv"
    write_verdicts([Verdict("a/a", "a.py", "LT101", "0" * 12, "perhaps", "")], path)
    with pytest.raises(ValueError, match="perhaps"):
        read_verdicts(path)


def test_each_committed_verdict_gives_a_reason():
    assert all(len(each.why) > 10 for each in read_verdicts(FILE).values())


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ("loss 1.5\n", "loss 1.5\n", True),
        ("loss 1.5\n", "loss 1.5000001\n", True),
        ("loss 1.5\n", "loss 1.6\n", False),
        ("loss 1.5\n", "cost 1.5\n", False),
        ("loss 1.5\n", "loss\n", False),
        ("", "", False),
    ],
)
def test_programs_print_the_same(before: str, after: str, holds: bool):
    assert compare(before, after)[1] is holds


def test_snippets_are_parts_between_blank_lines(tmp_path: Path):
    path = tmp_path / "a.good.py"
    path.write_text("import keras\n\nx = 1\n\n\ndef f():\n    y = 1\n\n    return y\n\n\nf()\n")
    assert count_parts(path) == 3


def test_findings_of_a_repository_are_counted_by_verdict(tmp_path: Path):
    root = tmp_path / "someone+something"
    root.mkdir()
    line = "data = tf.data.Dataset.range(9).batch(3).shuffle(9)"
    (root / "a.py").write_text(f"import tensorflow as tf\n{line}\n")
    (root / "b.py").write_text("import tensorflow as tf\nprint 1\n")
    ((name, found),) = repositories(tmp_path).items()
    assert (name, found) == ("someone/something", root)
    checked = [check_one((name, root, path)) for path in files_of(name, root)]
    assert [each.is_readable for each in checked] == [True, False]
    (finding,) = checked[0].findings
    assert (finding.code, finding.line, finding.digest) == ("LT203", 2, digest([line]))
    verdict = Verdict(*finding.key, WRONG, "a test")
    assert _judged([finding], {}) == ["1", "0", "0", "1"]
    assert _judged([finding], {verdict.key: verdict}) == ["1", "0", "1", "0"]
