"""`tests/private_names.py` lists every private name of TensorFlow and Keras that the source uses, and no other."""

import ast
import collections
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from tests import private_names

SOURCE = Path(lowtide.__file__).parent
# The rooms that may import TensorFlow: elsewhere a name of TensorFlow is the content of a file.
ROOMS_WITH_TENSORFLOW = ("tf", "feed", "shrink")
PRIVATE_PACKAGES = ("tensorflow.python", "tensorflow.core", "keras.src")
PRIVATE_NAME = re.compile(r"_[A-Za-z]\w*")
ENVIRONMENT_VARIABLE = re.compile(r"\b(?:TF|XLA|ONEDNN)_[A-Z0-9_]+\b")
# Of Python itself: functions of sys and os, methods of named tuples.
OF_PYTHON = {"_getframe", "_current_frames", "_exit", "_replace", "_asdict", "_fields"}


def uses_in(path: Path) -> Iterator[str]:
    """The private names of TensorFlow and Keras that a file uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    has_tensorflow = path.relative_to(SOURCE).parts[0] in ROOMS_WITH_TENSORFLOW
    imported = dict(private_imports(tree))
    own = set(own_names(tree))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    modules = {
        node.value.id
        for node in attributes
        if isinstance(node.value, ast.Name) and node.value.id.lstrip("_")[:1].islower()
    }
    for name, full_name in imported.items():
        # Of a module that is imported as a whole, only the attributes count.
        if full_name.startswith("tensorflow.core") or name not in modules:
            yield full_name
    for node in attributes:
        base = node.value.id if isinstance(node.value, ast.Name) else None
        if base in imported:
            if not imported[base].startswith("tensorflow.core"):
                yield f"{imported[base]}.{node.attr}"
        elif base not in ("self", "cls") and PRIVATE_NAME.fullmatch(node.attr) and node.attr not in own | OF_PYTHON:
            yield node.attr
    for text in strings_of(tree):
        yield from ENVIRONMENT_VARIABLE.findall(text)
        if has_tensorflow and PRIVATE_NAME.fullmatch(text) and text not in own:
            yield text
        assert not text.startswith(PRIVATE_PACKAGES), f"{path}: import {text} with a statement"


def private_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, with what it stands for; late imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PRIVATE_PACKAGES):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            assert not any(name.startswith(PRIVATE_PACKAGES) for name in names), f"write `from ... import` for {names}"


def own_names(tree: ast.Module) -> Iterator[str]:
    """The names that a file defines itself: functions, classes, fields, attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield from [node.attr] if node.value.id in ("self", "cls") else []


def strings_of(tree: ast.Module) -> Iterator[str]:
    """The strings and bytes of a file, without docstrings and parts of formatted strings."""
    ignored = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    ignored |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in ignored:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


@pytest.fixture(scope="module")
def folders_of_uses() -> dict[str, set[str]]:
    found = collections.defaultdict(set)
    # The doctor has names of what the code of others imports.
    for path in (each for each in SOURCE.rglob("*.py") if each.parts[len(SOURCE.parts)] != "doctor"):
        for name in uses_in(path):
            found[name].add("/".join(path.parent.relative_to(SOURCE).parts[:2]))
    return found


def test_every_private_name_is_in_the_table_with_the_folders_that_use_it(folders_of_uses):
    listed = {entry.name: set(entry.folders.split()) for entry in private_names.ALL}
    used = {name: folders for name, folders in folders_of_uses.items() if name not in private_names.OF_LOWTIDE}
    assert {name: folders for name, folders in used.items() if listed.get(name) != folders} == {}


def test_every_entry_of_the_table_is_used(folders_of_uses):
    assert [entry.name for entry in private_names.ALL if entry.name not in folders_of_uses] == []
    assert private_names.OF_LOWTIDE <= folders_of_uses.keys()


def test_the_table_has_each_name_once():
    names = [entry.name for entry in private_names.ALL]
    assert sorted(names) == sorted(set(names))
