"""The mistakes that other evidence points to: lines that ran when memory ran out, and names of what was held."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

from lowtide.doctor.checkup import check_path
from lowtide.doctor.code.module import Module
from lowtide.doctor.code.values import DATASET
from lowtide.doctor.problem import Mistake
from lowtide.doctor.reading.source import read_source
from lowtide.doctor.settings import DoctorSettings, find_settings
from lowtide.errors import LowtideError

# The rules for pipelines, and for the arrays that they begin with.
_OF_PIPELINES = ("LT1", "LT2")


def find_mistakes_behind(path: Path, lines: Collection[int], names: Collection[str] = ()) -> list[Mistake]:
    """Return the mistakes on some lines of a file, in datasets that these lines use, and in lines with some names."""
    found = check_python(path)
    if not found:
        return []
    stages = _stages_used_by(path, lines)
    word = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b") if names else None
    return [
        each
        for each in found
        if any(each.line <= line <= each.end_line for line in lines)
        or (each.code.startswith(_OF_PIPELINES) and any(each.line in stage for stage in stages))
        or (word is not None and word.search(each.excerpt))
    ]


def check_python(path: Path) -> list[Mistake]:
    """Return the mistakes in a Python file; none if it cannot be read."""
    try:
        settings = find_settings(path)
    except LowtideError:
        settings = DoctorSettings()
    if path.suffix in (".ipynb", ".md") or not path.is_file():
        return []
    return [each for each in check_path(path, settings) if each.code != "LT000"]


def _stages_used_by(path: Path, lines: Collection[int]) -> list[range]:
    """Return the lines of the calls that made the datasets which some lines use."""
    (source,) = read_source(path)
    module = Module(source)
    used = (node for node in module.nodes(ast.Name, ast.Call, ast.Attribute) if node.lineno in lines)
    values = (module.value(node) for node in used)
    stages = {stage for value in values if value is not None and value.kind == DATASET for stage in value.stages}
    return [range(stage.lineno, (stage.end_lineno or stage.lineno) + 1) for stage in stages]
