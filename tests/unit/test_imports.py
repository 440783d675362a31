"""Imports go one way between the rooms, and TensorFlow stays where it belongs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lowtide

SOURCE = Path(lowtide.__file__).parent

# Later rooms may import earlier ones; rooms of one line do not import each other.
ORDER = [
    ["errors"],
    ["units", "progress"],
    ["program"],
    ["simulator"],
    ["tide"],
    ["planning"],
    ["sources"],
    ["oom"],
    ["atlas"],
    ["run"],
    ["tf"],
    ["feed", "shrink", "doctor"],
    ["__init__"],
    ["view"],
    ["cli"],
    ["__main__"],
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
MAY_IMPORT_TENSORFLOW = {"tf", "feed", "shrink"}

FILES = sorted(path for path in SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path: Path) -> list[str]:
    """Every module that a file imports anywhere, also late or for types only."""
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            # `from lowtide import x` may name a room or a public name.
            rooms = [alias.name for alias in node.names if node.module == "lowtide" and alias.name in RANK]
            modules += [f"lowtide.{name}" for name in rooms] or [node.module]
    return modules


def test_every_file_is_in_a_room_that_is_known():
    assert {room_of(path) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    for module in imported_modules(path):
        if module.split(".")[0] != "lowtide":
            continue
        other = module.split(".")[1] if "." in module else "__init__"
        # Annotations in the public face are for type checkers, its values come late; both lie below it.
        assert other == room or RANK[other] < RANK[room], f"{room} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_tensorflow_and_keras_are_imported_where_the_program_meets_them(path):
    heavy = {module for module in imported_modules(path) if module.split(".")[0] in ("tensorflow", "keras")}
    assert not heavy or room_of(path) in MAY_IMPORT_TENSORFLOW


def python(code: str, *, without_tensorflow: bool = False) -> subprocess.CompletedProcess[str]:
    if without_tensorflow:
        # None in sys.modules is how Python itself says that a module cannot be imported.
        hide = "import sys, importlib.util as u; f = u.find_spec\n"
        hide += "u.find_spec = lambda name, *rest: None if name in ('tensorflow', 'keras') else f(name, *rest)\n"
        hide += "sys.modules['tensorflow'] = sys.modules['keras'] = None\n"
        code = hide + code
    environment = {"PYTHONPATH": str(SOURCE.parent)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def loaded_by(code: str) -> set[str]:
    done = python(f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)")
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stderr.split()}


def test_importing_lowtide_is_light():
    loaded = loaded_by("import lowtide; lowtide.LowtideError; lowtide.__version__; dir(lowtide)")
    assert loaded.isdisjoint({"tensorflow", "keras", "numpy", "rich", "click"})


def test_help_is_light():
    loaded = loaded_by(
        "import lowtide.cli\ntry: lowtide.cli.main(['--help'])\nexcept SystemExit as end: assert end.code == 0"
    )
    assert "click" in loaded
    assert loaded.isdisjoint({"tensorflow", "keras", "numpy", "rich"})


def test_help_of_a_verb_is_light():
    loaded = loaded_by("import lowtide.cli\ntry: lowtide.cli.main(['predict', '--help'])\nexcept SystemExit: pass")
    assert loaded.isdisjoint({"tensorflow", "keras", "numpy", "rich"})


def test_explain_does_without_tensorflow(tide_file):
    loaded = loaded_by(
        f"import lowtide.cli\ntry: lowtide.cli.main(['explain', {str(tide_file)!r}])\nexcept SystemExit: pass"
    )
    assert {"rich", "numpy"} <= loaded
    assert loaded.isdisjoint({"tensorflow", "keras"})


@pytest.mark.parametrize("arguments", [["--help"], ["nowhere"]])
def test_view_starts_without_tensorflow(arguments):
    loaded = loaded_by(f"import lowtide.cli\ntry: lowtide.cli.main(['view', *{arguments}])\nexcept SystemExit: pass")
    assert loaded.isdisjoint({"tensorflow", "keras"})
    assert arguments == ["nowhere"] or loaded.isdisjoint({"numpy", "rich"})


@pytest.mark.parametrize(
    "module",
    [
        "view.server.http_server",
        "view.server.app",
        "view.server.worker",
        "atlas.screens.screen",
        "view.server.tensorboard_plugin",
    ],
)
def test_what_shows_graphs_does_without_tensorflow(module):
    assert loaded_by(f"import lowtide.{module}").isdisjoint({"tensorflow", "keras"})


def test_names_that_are_not_there_are_attribute_errors():
    assert not hasattr(lowtide, "nonsense")
    assert set(lowtide.__all__) == set(dir(lowtide))


def test_without_tensorflow_predict_names_the_extra():
    done = python("import lowtide\nlowtide.predict", without_tensorflow=True)
    assert done.returncode == 1
    assert 'pip install "lowtide[cpu]"' in done.stderr


def test_without_tensorflow_the_command_says_so_in_one_line():
    done = python("import lowtide.cli; lowtide.cli.main(['predict', 'keras:ResNet50'])", without_tensorflow=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "lowtide[cpu]"' in done.stderr
