"""Imports go one way between the rooms, and TensorFlow stays where it belongs."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lowtide

SOURCE = Path(lowtide.__file__).parent
ROOT = Path(__file__).parents[2]

# The table of rooms in CONTRIBUTING.md, in the order of imports: a room imports only rooms above it.
ROOMS = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
# The public names refer to everything except what shows it; views and commands may use the public names.
ORDER = [*(room for room in ROOMS if room not in ("view", "cli")), "__init__", "view", "cli", "__main__"]
RANK = {room: rank for rank, room in enumerate(ORDER)}
MAY_IMPORT_TENSORFLOW = {"tf", "feed"}
MOST_MODULES_IN_A_FOLDER = 20

# The doctor's examples, such as NAME.bad.py, are no modules.
FILES = sorted(path for path in SOURCE.rglob("*.py") if "." not in path.stem)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def modules_imported_by(tree: ast.AST) -> list[str]:
    """Every module that a file imports anywhere, also late, for types only, or by a name in a string."""
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                modules.append(name if name in MODULES else node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # "lowtide.room.module", "lowtide.room.module:name" and the constant start of an f-string.
            named = re.match(r"(lowtide(?:\.\w+)+)(?::\w+|\.)?$", node.value)
            if named and named[1] in MODULES:
                modules.append(named[1])
    return modules


def imported_modules(path: Path) -> list[str]:
    return modules_imported_by(ast.parse(path.read_text(encoding="utf-8")))


def test_the_table_of_rooms_lists_every_room():
    assert {room_of(path) for path in FILES} == set(ORDER)


def test_imports_written_as_strings_count():
    code = """load("lowtide.units"); load("lowtide.tf.plan:make"); load(f"lowtide.cli.{verb}"); load("lowtide.X")"""
    assert modules_imported_by(ast.parse(code)) == ["lowtide.units", "lowtide.tf.plan", "lowtide.cli"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    room = room_of(path)
    for module in imported_modules(path):
        if module.split(".")[0] != "lowtide":
            continue
        other = module.split(".")[1] if "." in module else "__init__"
        assert other == room or RANK[other] < RANK[room], f"{room} imports {module}"


@pytest.mark.parametrize("room", [room for room in ORDER if (SOURCE / room).is_dir()])
def test_no_room_has_an_import_cycle(room):
    imports = defaultdict(set)
    for module, path in MODULES.items():
        # Packages whose __init__ offers public names import late what is below them.
        if room_of(path) == room and path.name != "__init__.py":
            imports[module] = {each for each in imported_modules(path) if each in MODULES and each != module}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_folders_are_small_enough_to_read():
    counts = {folder: sum(path.parent == folder for path in FILES) for folder in {path.parent for path in FILES}}
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in counts.items()}
    assert {folder: count for folder, count in crowded.items() if count > MOST_MODULES_IN_A_FOLDER} == {}


def test_every_package_says_what_it_is_for():
    for path in FILES:
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_class_names_are_unique():
    homes = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


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
def test_verbs_for_graphs_need_no_tensorflow(module):
    assert loaded_by(f"import lowtide.{module}").isdisjoint({"tensorflow", "keras"})


def test_missing_names_are_attribute_errors():
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
