"""Counts in messages have their noun in the right number: `format_count` writes both, so no message says "1 lines"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lowtide

SOURCE = Path(lowtide.__file__).parent
_PLURAL = re.compile(r" (?:more |other )?(?!is\b|was\b|has\b|does\b)[a-z]+s\b")
# Counts that cannot be 1 where the message is made, or numbers that count nothing.
NEVER_ONE = {
    "atlas/cuts/collapse.py": ("boxes", "functions"),
    "atlas/drawing/drawing.py": ("bundles", "edges", "nodes"),
    "atlas/exports/graph_def.py": ("bytes",),
    "atlas/graph_file.py": ("files",),
    "cli/differences.py": ("files",),
    "doctor/check.py": ("cells",),
    "doctor/rules/models/models_in_loop.py": ("models",),
    "doctor/rules/models/whole_set_in_one_batch.py": ("rows", "times"),
    "doctor/rules/pipelines/many_batches_prefetched.py": ("batches", "samples"),
    "doctor/rules/pipelines/shuffle_after_batch.py": ("times",),
    "doctor/rules/training/accumulation_steps.py": ("samples",),
    "oom/cause.py": ("tensors", "blocks"),
    "oom/outside_reader.py": ("requests",),
    "oom/process_log.py": ("bytes",),
    "oom/process_reader.py": ("bytes",),
    "run/recorded_tide.py": ("steps",),
    "sources/graphs/found_graphs.py": ("graphs",),
    "tf/trace/keras_models.py": ("arguments",),
    "tf/trace/predict.py": ("rows",),
    "tf/trace/simulated_step.py": ("devices",),
    "tf/trace/xla/tide.py": ("bytes",),
    "tf/watch/retracing.py": ("times",),
    "tf/watch/session_graphs.py": ("ops",),
    "tf/watch/xla_programs.py": ("shapes",),
    "feed/pipeline/error_tracking.py": ("samples",),
    "view/server/queries.py": ("characters",),
}


def is_count(part: ast.expr) -> bool:
    """Whether a part of an f-string is `{len(x)}`, or a number with separators of thousands."""
    if not isinstance(part, ast.FormattedValue):
        return False
    is_length = isinstance(part.value, ast.Call) and getattr(part.value.func, "id", None) == "len"
    return is_length or (part.format_spec is not None and ast.unparse(part.format_spec) == "f','")


def plurals(path: Path) -> Iterator[str]:
    for text in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(text, ast.JoinedStr):
            continue
        for part, after in zip(text.values, text.values[1:], strict=False):
            if is_count(part) and isinstance(after, ast.Constant) and (match := _PLURAL.match(after.value)):
                yield match[0].split()[-1]


def test_the_number_of_a_noun_follows_its_count():
    found = {path.relative_to(SOURCE).as_posix(): set(plurals(path)) for path in SOURCE.rglob("*.py")}
    wrong = {path: words - set(NEVER_ONE.get(path, ())) for path, words in found.items()}
    assert {path: words for path, words in wrong.items() if words} == {}
    assert {path: words for path, words in NEVER_ONE.items() if not set(words) <= found[path]} == {}
