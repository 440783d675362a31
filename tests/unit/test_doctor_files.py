"""Which files the doctor reads in a folder, its settings, and many files in several processes."""

import subprocess
from pathlib import Path

import pytest

import lowtide.doctor.checkup
import lowtide.doctor.settings
from lowtide import LowtideError
from lowtide.doctor.checkup import check_files
from lowtide.doctor.reading.files import find_files
from lowtide.doctor.reading.patterns import Patterns
from lowtide.doctor.rules import find_rule
from lowtide.doctor.settings import DoctorSettings, check_codes, find_settings

BAD = "import tensorflow as tf\ndata = tf.data.Dataset.range(9).batch(3).shuffle(5)\n"


def write(folder: Path, *names: str, text: str = BAD) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found_in(folder: Path, *exclude: str) -> list[str]:
    excluded = Patterns(folder, exclude) if exclude else None
    return [str(path.relative_to(folder)) for path in find_files(folder, excluded)]


def test_folders_of_others_are_skipped(tmp_path):
    kept = ["README.md", "explore.ipynb", "src/a.py", "src/rebuild/b.py", "train.py"]
    write(tmp_path, *kept)
    write(tmp_path, ".git/a.py", ".hidden/a.py", "build/a.py", "dist/a.py", "node_modules/x/a.py", "x.egg-info/a.py")
    write(tmp_path, "venv/a.py", "mine/pyvenv.cfg", "mine/a.py", "lib/site-packages/a.py", "src/__pycache__/a.py")
    write(tmp_path, "notes.txt", "src/a.pyc", ".ipynb_checkpoints/explore.ipynb")
    assert found_in(tmp_path) == kept
    # A folder that is named is read.
    assert found_in(tmp_path / "build") == ["a.py"]


def test_links_are_not_followed_in_circles(tmp_path):
    write(tmp_path, "a/b.py")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "lost.py").symlink_to(tmp_path / "nowhere")
    assert found_in(tmp_path) == ["a/b.py"]


IGNORED = """
# a comment
*.tmp.py
/only_here.py
out*/
docs/**/gen.py
deep/**
!deep/kept.py
**/anywhere/*.py
a[0-9!]?.py
\\#odd.py
trailing.py\x20\x20
"""
NAMES = [
    "x.tmp.py", "s/y.tmp.py", "only_here.py", "s/only_here.py", "output/a.py", "s/out/a.py", "out.py", "docs/gen.py",
    "docs/a/b/gen.py", "docs/a/b/gem.py", "deep/x.py", "deep/kept.py", "anywhere/a.py", "s/t/anywhere/a.py", "a5x.py",
    "a!x.py", "abx.py", "a5.py", "#odd.py", "trailing.py", "t/trailing.py",
]  # fmt: skip


def test_ignored_files_are_those_of_git(tmp_path):
    write(tmp_path, *NAMES)
    write(tmp_path, ".gitignore", text=IGNORED)
    write(tmp_path, "s/.gitignore", text="!only_here.py\n!y.tmp.py\nt\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    listing = ["git", "-C", str(tmp_path), "-c", "core.quotePath=off", "ls-files", "--others", "--exclude-standard"]
    kept = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\n")
    python = sorted(name for name in kept if name.endswith(".py"))
    assert 5 < len(python) < len(NAMES)
    assert sorted(found_in(tmp_path)) == python
    # The files above a folder count, up to the repository's.
    assert sorted(found_in(tmp_path / "docs")) == ["a/b/gem.py"]


def test_excluded_files_are_left_out(tmp_path):
    write(tmp_path, "a.py", "tests/a.py", "src/tests/b.py", "src/old/c.py", "src/c.py")
    assert found_in(tmp_path, "tests", "src/old/*.py") == ["a.py", "src/c.py"]


@pytest.fixture
def only_one_rule(monkeypatch):
    rules = (find_rule("LT203"),)
    monkeypatch.setattr(lowtide.doctor.settings, "all_rules", lambda: rules)


def test_settings_are_those_of_the_nearest_file_that_has_some(tmp_path):
    write(tmp_path, "pyproject.toml", text='[tool.lowtide.doctor]\nselect = ["lt2"]\nexclude = ["old"]\n')
    write(tmp_path, "sub/pyproject.toml", text="[tool.other]\n")
    write(tmp_path, "sub/deep/pyproject.toml", text='[tool.lowtide.doctor]\nignore = ["LT203"]\n')
    write(tmp_path, "sub/a.py", "sub/deep/a.py")
    outer = find_settings(tmp_path / "sub" / "a.py")
    assert (outer.select, outer.exclude, outer.folder) == (("LT2",), ("old",), tmp_path)
    assert find_settings(tmp_path / "sub" / "deep").ignore == ("LT203",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("selects = []", "did you mean select?"),
        ('select = "LT203"', "is a list of texts"),
        ("select = [1]", "is a list of texts"),
        ('ignore = ["LT204"]', "did you mean LT203"),
        ("x = = 1", "cannot read pyproject.toml"),
    ],
)
def test_mistakes_in_the_settings_are_named(only_one_rule, tmp_path, text, words):
    write(tmp_path, "pyproject.toml", text=f"[tool.lowtide.doctor]\n{text}\n")
    with pytest.raises(LowtideError, match=words.replace("?", r"\?")):
        find_settings(tmp_path)


def test_codes_may_be_beginnings(only_one_rule):
    assert check_codes(["lt203,LT2", "LT000"], "--select") == ("LT203", "LT2", "LT000")
    with pytest.raises(LowtideError, match="did you mean LT203"):
        check_codes(["LT230"], "--select")
    with pytest.raises(LowtideError, match="--list"):
        check_codes(["E501"], "--select")
    assert DoctorSettings(select=("LT2",), ignore=("LT203",)).rules == ()


def test_processes_find_what_one_finds(tmp_path, monkeypatch):
    write(tmp_path, *(f"{number:02}.py" for number in range(40)))
    write(tmp_path, "17.py", text="def f(:")
    tasks = [(path, DoctorSettings()) for path in find_files(tmp_path)]
    alone = check_files(tasks)
    assert [each.code for each in alone.mistakes].count("LT203") == 39
    monkeypatch.setattr(lowtide.doctor.checkup, "_BYTES_FOR_A_PROCESS", 1)
    monkeypatch.setattr(lowtide.doctor.checkup.os, "sched_getaffinity", lambda process: {0, 1})
    counts: list[int] = []
    assert check_files(tasks, counts.append) == alone
    assert counts == list(range(1, 41))


def test_a_rule_that_fails_costs_one_file(tmp_path, monkeypatch):
    write(tmp_path, "a.py", "b.py")

    def fail(source, rules):
        if source.path.name == "a.py":
            raise IndexError("list\nindex")
        return []

    monkeypatch.setattr(lowtide.doctor.checkup, "check_source", fail)
    (found,) = check_files([(tmp_path / name, DoctorSettings()) for name in ("a.py", "b.py")]).mistakes
    assert found.message == ("lowtide failed on this file, which is a mistake of lowtide: IndexError: list index")
