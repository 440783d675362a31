"""The Python in the documents runs as it stands, block after block, as a reader would type it."""

import re
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow

DOCUMENTS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("index.md", lambda names: names["tide"].peak_bytes > 0),
        ("predict.md", lambda names: names["tide"].peak_bytes > 0),
        ("diff.md", lambda names: names["tide"].peak_bytes > 0),
        ("plan.md", lambda names: names["again"].peak_bytes <= names["plan"].budget_bytes),
        ("measure.md", lambda names: names["tide"].peak_bytes > 0),
        ("graph.md", lambda names: 0 < len(names["products"]) < len(names["graph"])),
        ("feed.md", lambda names: (names["bookmark"].epoch, len(names["part"])) == (2, 8)),
        ("doctor.md", lambda names: "data" in names),
        ("train.md", lambda names: (names["training"].epoch, names["training"].steps_done) == (2, 16)),
        ("watch.md", lambda names: names["released"].held_bytes >= 0),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_the_examples_of_a_document_run(name, holds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWTIDE_CACHE", str(tmp_path / "cache"))
    text = (DOCUMENTS / name).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks
    names = {"__name__": "document"}
    for block in blocks:
        # Errors show the line of the document.
        lines = "\n" * text[: block.start(1)].count("\n")
        exec(compile(lines + block[1], str(DOCUMENTS / name), "exec"), names)
    assert holds(names)


@pytest.mark.parametrize(
    "path", [DOCUMENTS / "architecture.md", *sorted((DOCUMENTS / "how").glob("*.md"))], ids=lambda path: path.name
)
def test_modules_named_in_how_it_works_exist(path):
    source = DOCUMENTS.parent / "src" / "lowtide"
    rooms = [room.name for room in source.iterdir() if room.is_dir()]
    named = re.findall(rf"`?\b((?:{'|'.join(rooms)})/[\w/]*)", path.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (source / name).is_dir() and not (source / f"{name}.py").exists()] == []


@pytest.mark.parametrize("path", sorted(DOCUMENTS.rglob("*.md")), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("verb", ["predict", "plan", "run", "train", "doctor", "graph"])
def test_the_table_of_options_is_complete(verb):
    command = import_module(f"lowtide.cli.{verb}").command
    text = (DOCUMENTS / f"{verb}.md").read_text(encoding="utf-8")
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    assert [option for option in options if f"| `{option}" not in text] == []
