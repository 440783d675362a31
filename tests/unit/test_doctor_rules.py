"""Every rule finds what its bad examples mark, and nothing in its good ones."""

import ast
from pathlib import Path

import pytest

from lowtide.doctor.check import check_file
from lowtide.doctor.fixes import apply_edits
from lowtide.doctor.rule import Rule
from lowtide.doctor.rules import all_rules, examples

RULES = all_rules()


def cases(ending: str) -> list:
    found = [(rule, path) for rule in RULES for path in examples(rule, ending)]
    return [pytest.param(rule, path, id=path.name.removesuffix(".py")) for rule, path in found]


def marked_lines(path: Path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.rstrip().endswith("# bad")}


@pytest.mark.parametrize(("rule", "path"), cases(".bad.py"))
def test_bad_code_is_found_where_it_is(rule: Rule, path: Path):
    assert {each.line for each in check_file(path, [rule])} == marked_lines(path) != set()


@pytest.mark.parametrize(("rule", "path"), cases(".good.py"))
def test_good_code_is_not_flagged(rule: Rule, path: Path):
    ast.parse(path.read_text(encoding="utf-8"))
    assert check_file(path, RULES) == []


@pytest.mark.parametrize(("rule", "path"), cases(".in.py"))
def test_a_fix_is_what_a_person_would_write(rule: Rule, path: Path):
    text = path.read_text(encoding="utf-8")
    found = [each for each in check_file(path, [rule]) if each.is_fixable]
    corrected = apply_edits(text, [edit for each in found for edit in each.edits])
    assert corrected == path.with_name(path.name.removesuffix(".in.py") + ".out.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_examples_and_an_explanation(rule: Rule):
    assert examples(rule, ".bad.py")
    assert examples(rule, ".good.py")
    assert rule.code.startswith("LT")
    assert len(rule.code) == 5
    assert rule.explanation.strip()


def test_codes_and_names_are_unique():
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
