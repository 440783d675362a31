"""What other programs get of the doctor: SARIF, annotations of GitHub, JSON; and text."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

import lowtide.doctor.settings
from lowtide.doctor.check import unreadable
from lowtide.doctor.checkup import Checkup, check_files
from lowtide.doctor.explanation import Explanation
from lowtide.doctor.problem import FileRegion, Mistake
from lowtide.doctor.settings import DoctorSettings
from lowtide.view.doctor.github import render_github
from lowtide.view.doctor.json_report import checkup_to_dict
from lowtide.view.doctor.lines import describe_files, summary_line
from lowtide.view.doctor.sarif import render_sarif
from lowtide.view.doctor.terminal import TerminalCheckup, render_text
from tests.doctor_rules import ALL

RULES = [Explanation("LT000", "unreadable", "Files", "Text.\n\nMore.")]
RULES += [Explanation(rule.code, rule.name, "Tests", rule.explanation) for rule in ALL]


@pytest.fixture
def checkup(tmp_path, monkeypatch) -> Checkup:
    """A file, one with a strange name, a notebook and a broken file, in a folder of their own."""
    monkeypatch.setattr(lowtide.doctor.settings, "all_rules", lambda: ALL)
    monkeypatch.chdir(tmp_path)
    code = "import tensorflow as tf\n\né = '😀'; x = tf.identity(\n    tf.identity(1))\n"
    Path("a b#1.py").write_text(code, encoding="utf-8")
    Path("broken.py").write_text("def f(:\n")
    cells = [{"cell_type": "code", "source": code.splitlines(True)}]
    Path("sub").mkdir()
    Path("sub/é.ipynb").write_text(json.dumps({"cells": cells}, indent=1, ensure_ascii=False), encoding="utf-8")
    paths = [Path("a b#1.py"), Path("broken.py"), tmp_path / "sub" / "é.ipynb"]
    return check_files([(path, DoctorSettings()) for path in paths])


def is_uri(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", text) is not None


def check_region(region: dict) -> None:
    assert set(region) <= {"startLine", "startColumn", "endLine", "endColumn", "snippet"}
    numbers = [value for key, value in region.items() if key != "snippet"]
    assert all(isinstance(number, int) and number >= 1 for number in numbers)
    if "endLine" in region:
        assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def check_location(location: dict) -> None:
    assert set(location) <= {"uri", "uriBaseId", "index"}
    assert is_uri(location["uri"])
    assert ("uriBaseId" in location) == (not location["uri"].startswith("file:///"))


# The keys that the schema of SARIF 2.1.0 knows, of those objects that are written.
KEYS = {
    "log": {"$schema", "version", "runs", "inlineExternalProperties", "properties"},
    "run": {"tool", "columnKind", "originalUriBaseIds", "artifacts", "results", "invocations", "properties"},
    "driver": {"name", "semanticVersion", "version", "rules", "informationUri", "fullName", "properties"},
    "rule": {"id", "name", "shortDescription", "fullDescription", "help", "helpUri", "defaultConfiguration"}
    | {"properties"},
    "result": {"ruleId", "ruleIndex", "level", "message", "locations", "fixes", "properties"},
}


def check_sarif(log: dict) -> None:
    """Hold a log against the parts of the schema that it uses."""
    assert log["version"] == "2.1.0"
    assert set(log) <= KEYS["log"]
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert set(run) <= KEYS["run"]
    assert set(driver) <= KEYS["driver"]
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].endswith("/")
        assert is_uri(base["uri"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert set(rule) <= KEYS["rule"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
    for artifact in run["artifacts"]:
        check_location(artifact["location"])
    for result in run["results"]:
        assert set(result) <= KEYS["result"]
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in result["locations"]:
            check_location(location["physicalLocation"]["artifactLocation"])
            check_region(location["physicalLocation"]["region"])
            check_region(location["physicalLocation"].get("contextRegion", {}))
        for fix in result.get("fixes", ()):
            assert fix["artifactChanges"]
            for change in fix["artifactChanges"]:
                check_location(change["artifactLocation"])
                assert change["replacements"]
                for replacement in change["replacements"]:
                    check_region(replacement["deletedRegion"])
                    assert "text" in replacement["insertedContent"]


def test_sarif_is_valid_and_its_fixes_correct_the_files(checkup):
    log = json.loads(json.dumps(render_sarif(checkup, RULES, "0.1.0", None)))
    check_sarif(log)
    results = log["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["LT901", "LT901", "LT000", "LT901", "LT901"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "a%20b%231.py", "a%20b%231.py", "broken.py", "sub/%C3%A9.ipynb", "sub/%C3%A9.ipynb",
    ]  # fmt: skip
    assert places[0]["region"] == {"startLine": 3, "startColumn": 14, "endLine": 4, "endColumn": 20}
    assert results[3]["locations"][0]["logicalLocations"] == [{"name": "cell 1", "kind": "module"}]
    assert results[3]["message"]["text"].startswith("Cell 1, line 3: identity copies nothing. Leave it out.")
    for number, path in ((1, "a b#1.py"), (4, "sub/é.ipynb")):
        (change,) = results[number]["fixes"][0]["artifactChanges"]
        (replacement,) = change["replacements"]
        region, lines = replacement["deletedRegion"], Path(path).read_text(encoding="utf-8").splitlines()
        text = lines[region["startLine"] - 1][region["startColumn"] - 1 : region["endColumn"] - 1]
        assert (text, replacement["insertedContent"]["text"]) == ("tf.identity(1)", "1")


def test_sarif_links_to_the_pages_of_a_site(checkup):
    log = render_sarif(checkup, RULES, "0.1.0", "https://example.org/lowtide")
    check_sarif(log)
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["rules"][1]["helpUri"] == "https://example.org/lowtide/doctor/LT901/"
    assert driver["informationUri"] == "https://example.org/lowtide/doctor/"


def test_annotations_name_the_lines_of_files(checkup):
    lines = render_github(checkup, {rule.code: rule.name for rule in RULES}).splitlines()
    assert lines[0] == (
        "::warning file=a b#1.py,line=3,endLine=4,title=LT901 identity::identity copies nothing%0Aleave it out"
    )
    assert lines[1].startswith("::warning file=a b#1.py,line=4,endLine=4,col=5,endColumn=19,title=")
    assert lines[2].startswith("::error file=broken.py,line=1,endLine=1,col=7,endColumn=8,title=LT000 unreadable::")
    assert "::cell 1, line 3: identity copies nothing%0A" in lines[3]
    assert re.match(r"::warning file=sub/é.ipynb,line=\d+,", lines[3])


def test_annotations_escape_what_github_would_read_as_its_own():
    place = FileRegion(1, 2, 1, 3)
    mistake = Mistake("LT1", Path("C:\\a,b%.py"), 1, 2, 1, 3, "50%\r\n::error::", "x: y, z", region=place)
    line = render_github(Checkup((), (mistake,)), {"LT1": "a: b, 5%"})
    assert line == (
        "::warning file=C%3A\\a%2Cb%25.py,line=1,endLine=1,col=2,endColumn=3,title=LT1 a%3A b%2C 5%25"
        "::50%25%0D%0A::error::%0Ax: y, z\n"
    )


def test_json_has_places_and_edits(checkup):
    data = json.loads(json.dumps(checkup_to_dict(checkup)))
    assert data["schema_version"] == 1
    assert data["files"][:2] == ["a b#1.py", "broken.py"]
    assert data["fixable"] == 4
    problem = data["problems"][1]
    assert {key: problem[key] for key in ("code", "path", "cell", "line", "column", "end_line", "end_column")} == {
        "code": "LT901", "path": "a b#1.py", "cell": None, "line": 4, "column": 5, "end_line": 4, "end_column": 19,
    }  # fmt: skip
    assert problem["edits"] == [{"line": 4, "column": 5, "end_line": 4, "end_column": 19, "text": "1"}]
    assert data["problems"][3]["cell"] == 1
    assert data["problems"][3]["region"]["line"] > 3


def test_text_has_the_advice_below_the_message(checkup):
    lines = render_text(checkup, ["a b#1.py", "."]).splitlines()
    assert lines[:2] == ["a b#1.py:3:14  LT901  identity copies nothing", "               leave it out"]
    assert lines[-1] == "5 problems in 3 files, 4 fixable: lowtide doctor --fix 'a b#1.py' ."


def on_terminal(checkup: Checkup, width: int) -> list[str]:
    console = Console(width=width, force_terminal=True, color_system=None, _environ={"TERM": "xterm"})
    with console.capture() as capture:
        console.print(TerminalCheckup(checkup))
    return re.sub(r"\x1b\[[\d;]*m", "", capture.get()).splitlines()


def test_a_terminal_shows_the_code_with_a_mark_below_it(checkup):
    lines = [line.rstrip() for line in on_terminal(checkup, 100)]
    begin = lines.index("a b#1.py:4:5  LT901  identity copies nothing")
    assert lines[begin + 1 : begin + 4] == [
        "              leave it out",
        "              tf.identity(1))",
        "              ^^^^^^^^^^^^^^",
    ]
    # A wide character takes two columns.
    begin = lines.index("a b#1.py:3:14  LT901  identity copies nothing")
    assert lines[begin + 2] == "               é = '😀'; x = tf.identity("
    assert lines[begin + 3] == "               " + " " * 14 + "^" * 12
    for width in (20, 40, 60):
        assert max(len(line) for line in on_terminal(checkup, width)) <= width


def test_the_summary_counts():
    paths = (Path("a.py"), Path("b.py"), Path("c.ipynb"), Path("d.md"), Path("train"))
    assert describe_files(paths) == "3 Python files, 1 notebook and 1 Markdown file"
    assert describe_files(paths[:1]) == "1 Python file"
    assert summary_line(Checkup(paths[:3], ()), ["."]) == "no problems in 2 Python files and 1 notebook"
    assert summary_line(Checkup(paths, (unreadable(paths[0], "x"),)), ["."]) == "1 problem in 1 file"
