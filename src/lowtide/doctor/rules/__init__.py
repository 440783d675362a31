"""All rules: one module for each, which defines RULE, with examples in a folder beside it.

The examples of `NAME.py` are in `examples/NAME/`. They are data: nothing imports them, and `--explain` prints them.
`NAME.bad.py` has code in which the rule finds something on each line that ends with `# bad`; `NAME.good.py` has code in
which it finds nothing; where the rule corrects code, `NAME.in.py` becomes `NAME.out.py`. Both of these are whole
programs that print what they compute; `benchmarks/doctor` runs both with the same seeds.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from lowtide.doctor.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, by code."""
    found = []
    for folder in Path(__file__).parent.iterdir():
        if folder.is_dir():
            names = [each.name for each in pkgutil.iter_modules([str(folder)])]
            found += [import_module(f"{__name__}.{folder.name}.{name}").RULE for name in names]
    return tuple(sorted(found, key=lambda rule: rule.code))


def find_rule(code: str) -> Rule | None:
    """Return the rule with a code, in upper or lower case; None if there is none."""
    return next((rule for rule in all_rules() if rule.code == code.upper()), None)


def examples(rule: Rule, ending: str) -> Sequence[Path]:
    """Return the examples of a rule whose names end with ".bad.py", ".good.py", ".in.py" or ".out.py"."""
    module = Path(inspect.getfile(rule.check))
    return sorted((module.parent / "examples" / module.stem).glob(f"*{ending}"))
