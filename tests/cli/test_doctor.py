"""`lowtide doctor`, as a person types it."""

import json
import os
import pty
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lowtide as package
from tests.children import command_environment

BAD = "import tensorflow as tf\n\ndata = tf.data.Dataset.range(9).batch(32).shuffle(5)\n"
GOOD = "import tensorflow as tf\n\ndata = tf.data.Dataset.range(9).shuffle(5).batch(32)\n"
FIXABLE = "import tensorflow as tf\n\nx = tf.identity(tf.identity(1))\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A project with a script, a notebook, and a file that does not parse."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(BAD)
    Path("good.py").write_text(GOOD)
    Path("src").mkdir()
    Path("src/broken.py").write_text("def f(:\n")
    cells = [{"cell_type": "code", "metadata": {}, "source": BAD.splitlines(True)}]
    Path("src/explore.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1))
    return tmp_path


MESSAGE = "shuffle after batch keeps batches in its buffer: 32 times the memory of its elements"


def test_problems_are_listed_with_places_codes_and_advice(lowtide):
    answer = lowtide("doctor", "train.py", "src")
    assert answer.code == 1
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"train.py:3:8  LT203  {MESSAGE}")
    assert lines[1].startswith("              ")
    assert lines[2].startswith("src/broken.py:1:7  LT000  the file does not parse as Python 3.")
    assert lines[4].startswith(f"src/explore.ipynb:cell 1:3:8  LT203  {MESSAGE}")
    assert lines[6].startswith("3 problems in 3 files")
    assert len(lines) == 7


def test_a_clean_run_says_what_was_checked(lowtide):
    answer = lowtide("doctor", "good.py")
    assert answer == (0, "no problems in 1 Python file\n", "")
    Path("empty").mkdir()
    answer = lowtide("doctor", "empty")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "nothing to check: there are no Python files, notebooks or Markdown files\n"


def test_a_file_is_checked_once_and_with_any_name(lowtide):
    Path("script").write_text(BAD)
    assert lowtide("doctor", "script", "script").out.count("LT203") == 1


def test_selected_and_ignored_rules(lowtide):
    assert lowtide("doctor", "train.py", "--select", "LT2").code == 1
    assert lowtide("doctor", "train.py", "--select", "lt000").code == 0
    assert lowtide("doctor", "train.py", "--ignore", "LT203,LT000").code == 0
    assert lowtide("doctor", "src", "--ignore", "LT203", "--ignore", "LT000").code == 0
    Path("pyproject.toml").write_text('[tool.lowtide.doctor]\nignore = ["LT2"]\nexclude = ["src/broken.py"]\n')
    assert lowtide("doctor", ".").code == 0
    assert lowtide("doctor", ".", "--ignore", "LT000").out.count("LT203") == 2
    # What is named is read.
    assert "LT000" in lowtide("doctor", "src/broken.py").out


def test_standard_input():
    command = [sys.executable, "-m", "lowtide", "doctor", "-"]
    notebook = Path("src/explore.ipynb").read_bytes()
    for content, place in ((BAD.encode(), "stdin:3:8  LT203"), (notebook, "stdin.ipynb:cell 1:3:8  LT203")):
        done = subprocess.run(command, input=content, capture_output=True, env=command_environment(), check=False)
        assert (done.returncode, done.stderr) == (1, b"")
        assert done.stdout.decode().startswith(place)


def test_json(lowtide):
    for options in (["--json"], ["--format", "json"], ["--json", "--format", "json"]):
        answer = lowtide("doctor", "train.py", *options)
        data = json.loads(answer.out)
        assert (answer.code, data["schema_version"]) == (1, 1)
        assert [(each["code"], each["line"], each["column"]) for each in data["problems"]] == [("LT203", 3, 8)]


def test_sarif_and_annotations(lowtide):
    answer = lowtide("doctor", ".", "--format", "sarif")
    (run,) = json.loads(answer.out)["runs"]
    assert answer.code == 1
    assert [result["ruleId"] for result in run["results"]] == ["LT000", "LT203", "LT203"]
    (rule,) = (each for each in run["tool"]["driver"]["rules"] if each["id"] == "LT203")
    assert "## Found" in rule["help"]["markdown"]
    lines = lowtide("doctor", "train.py", "--format", "github").out.splitlines()
    assert lines[0].startswith("::warning file=train.py,line=3,endLine=3,col=8,endColumn=53,title=LT203 ")
    assert len(lines) == 1
    assert lowtide("doctor", "good.py", "--format", "github") == (0, "", "")


def test_explanations(lowtide):
    answer = lowtide("doctor", "--explain", "lt203")
    assert answer.code == 0
    assert answer.out.startswith("# LT203: shuffle after batch\n")
    assert "## Found\n\n```python\n" in answer.out
    assert "# bad" not in answer.out
    assert "shuffle(100)  # LT203\n" in answer.out
    assert "does not parse" in lowtide("doctor", "--explain", "LT000").out
    listed = lowtide("doctor", "--list").out
    assert "\nLT203  shuffle after batch" in listed
    assert lowtide("doctor", "--explain", "all").out == listed
    data = json.loads(lowtide("doctor", "--list", "--json").out)
    assert {"code", "name", "text", "bad", "good", "fixable"} <= set(data["rules"][1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to read; give files or folders"),
        (["trian.py"], "there is no such file or folder (given: trian.py); did you mean train.py?"),
        (["--select", "LT230", "train.py"], "no rule has this code (given: --select LT230); did you mean LT"),
        (["--explain", "LT230"], "no rule has this code (given: LT230); did you mean LT"),
        (["--explain", "LT203", "--format", "sarif"], "explanations are text or JSON"),
        (["--json", "--format", "sarif", "train.py"], "give one of the two"),
        (["--yes", "train.py"], "--yes is for --fix"),
        (["--fix", "--json", "train.py"], "--fix shows a diff"),
        (["--fix", "-"], "--fix writes files"),
    ],
)
def test_usage_errors_say_what_to_do(refused, arguments, words):
    assert words in refused("doctor", *arguments)


def test_nothing_heavy_is_imported():
    code = "import sys\nfrom lowtide.cli import main\ntry: main({!r})\nexcept SystemExit: pass\n"
    code += "print(*sys.modules, file=sys.stderr)"
    for arguments, heavy in (
        (["doctor", "train.py"], {"tensorflow", "keras", "numpy"}),
        (["doctor", "--help"], {"tensorflow", "keras", "numpy", "rich"}),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)],
            capture_output=True,
            text=True,
            env={**command_environment(), "PYTHONPATH": str(Path(package.__file__).parents[1])},
            check=True,
        )
        assert heavy.isdisjoint({name.partition(".")[0] for name in done.stderr.split()})


# With the rules of tests, whose corrections are known.
LOWTIDE = """
import sys
import lowtide.doctor.settings
from lowtide.cli import main
from tests.doctor_rules import ALL
lowtide.doctor.settings.all_rules = lambda: ALL
main(sys.argv[1:])
"""


def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", LOWTIDE, "doctor", *arguments],
        input=stdin, capture_output=True, text=True, check=False,
        env={**command_environment(), "PYTHONPATH": f"{Path(package.__file__).parents[1]}:{root}"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def run_on_terminal(*arguments: str, typed: str) -> tuple[int, str]:
    """Run it in a pseudo-terminal, type a line, and return the exit code and all that was shown."""
    root = Path(__file__).parents[2]
    master, slave = pty.openpty()
    environment = {**command_environment(TERM="xterm-256color", COLUMNS="100"), "LINES": "40"}
    environment["PYTHONPATH"] = f"{Path(package.__file__).parents[1]}:{root}"
    process = subprocess.Popen(
        [sys.executable, "-c", LOWTIDE, "doctor", *arguments],
        stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True,
    )  # fmt: skip
    os.close(slave)
    os.write(master, f"{typed}\n".encode())
    shown = b""
    while True:
        try:
            block = os.read(master, 4096)
        except OSError:
            break
        if not block:
            break
        shown += block
    os.close(master)
    return process.wait(), shown.decode()


DIFF = """\
--- train.py
+++ train.py
@@ -1,3 +1,3 @@
 import tensorflow as tf
 \n\
-x = tf.identity(tf.identity(1))
+x = 1
"""


def test_without_a_terminal_a_fix_is_shown_and_not_made():
    Path("train.py").write_text(FIXABLE)
    code, out, err = run("--fix", "train.py", "good.py", stdin="y\n")
    assert code == 1
    assert out.startswith(DIFF)
    assert err == "nothing is changed: --fix --yes corrects 2 problems in 1 file without asking\n"
    assert out.endswith("2 problems in 1 file, 2 fixable: lowtide doctor --fix train.py good.py\n")
    assert Path("train.py").read_text() == FIXABLE
    # The diff is one that patch understands.
    Path("change.diff").write_text(out)
    subprocess.run(["git", "apply", "-p0", "change.diff"], check=True)
    assert Path("train.py").read_text() == "import tensorflow as tf\n\nx = 1\n"


def test_with_yes_a_fix_is_made():
    Path("train.py").write_text(FIXABLE)
    Path("other.py").write_text(FIXABLE.replace("tf.identity(tf.identity(1))", "tf.square(2)"))
    code, out, err = run("--fix", "--yes", "train.py", "good.py")
    assert (code, err) == (0, "")
    assert out == f"{DIFF}corrected 2 problems in 1 file\nno problems in 2 Python files\n"
    assert Path("train.py").read_text() == "import tensorflow as tf\n\nx = 1\n"
    assert run("--fix", "--yes", "train.py") == (0, "no problems in 1 Python file\n", "")
    code, out, err = run("--fix", "--yes", "other.py", "train.py")
    assert code == 1
    assert err == ("warning: with its fixes the file would not parse, so it stays as it is (given: other.py)\n")
    assert "LT902" in out


@pytest.mark.parametrize("typed", ["y", "n", ""])
def test_on_a_terminal_it_asks(typed):
    Path("train.py").write_text(FIXABLE)
    code, shown = run_on_terminal("--fix", "train.py", typed=typed)
    assert "correct 2 problems in 1 file? [y/N]:" in shown
    assert "\x1b[31m-x = tf.identity" in shown
    assert "\x1b[32m+x = 1" in shown
    is_made = typed == "y"
    assert Path("train.py").read_text() == ("import tensorflow as tf\n\nx = 1\n" if is_made else FIXABLE)
    assert code == (0 if is_made else 1)
    assert ("corrected 2 problems in 1 file" if is_made else "nothing is changed") in shown


def test_a_terminal_has_colours_and_the_code():
    code, shown = run_on_terminal("train.py", typed="")
    assert code == 0
    assert "✓ no problems in 1 Python file" in shown
    Path("train.py").write_text(textwrap.dedent(FIXABLE))
    _, shown = run_on_terminal("train.py", typed="")
    assert "\x1b[1;36mLT901" in shown
    assert "^^^^" in shown
    assert "\x1b" not in run("train.py")[1]


DOCUMENTS = Path(__file__).parents[2] / "docs"


def test_the_pages_of_rules_are_what_the_rules_say(tmp_path):
    written = tmp_path / "doctor"
    written.mkdir()
    (written / "LT999.md").write_text("A rule that is no more.")
    environment = {**command_environment(), "PYTHONPATH": str(Path(package.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "lowtide.doctor.pages", str(written)], env=environment, check=True)
    pages, committed = (
        {each.name: each.read_text(encoding="utf-8") for each in folder.glob("*.md")}
        for folder in (written, DOCUMENTS / "doctor")
    )
    assert pages == committed, "run: python -m lowtide.doctor.pages docs/doctor"


def test_the_guide_shows_what_the_command_prints(lowtide):
    text = (DOCUMENTS / "doctor.md").read_text()
    Path("train.py").write_text(text.partition("```python\n")[2].partition("```")[0])
    shown = text.partition("$ lowtide doctor train.py\n")[2].partition("```")[0].splitlines()
    printed = lowtide("doctor", "train.py").out.splitlines()
    assert [line.split()[:2] for line in shown] == [line.split()[:2] for line in printed]


def test_the_hook_of_pre_commit_is_the_command():
    hook = (DOCUMENTS.parent / ".pre-commit-hooks.yaml").read_text()
    assert "entry: lowtide doctor\n" in hook
    assert "id: lowtide-doctor\n" in hook
