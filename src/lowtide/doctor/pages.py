"""Writes one page of the documentation for each rule, and a page that lists them all.

`python -m lowtide.doctor.pages docs/doctor` does it; a test checks that the committed pages are what it writes.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from lowtide.doctor.explanation import Explanation, explain_all

_INDEX = """\
# Rules of the doctor

Each rule of [`lowtide doctor`](../doctor.md) has a code, which never gets another meaning. Mistakes marked with ✓ are
corrected by `--fix` where that is safe. `lowtide doctor --explain CODE` prints one of these pages.
"""


def render_pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    rules = explain_all()
    parts = [_INDEX]
    for group, members in groupby(rules, key=lambda each: each.group):
        rows = [f"| [{each.code}]({each.code}.md) | {each.name} | {'✓' * each.is_fixable} |" for each in members]
        parts += ["\n".join([f"## {group}", "", "| code | mistake | `--fix` |", "|---|---|---|", *rows, ""])]
    return {"index.md": "\n".join(parts), **{f"{each.code}.md": _render(each) for each in rules}}


def _render(rule: Explanation) -> str:
    return f"{rule.to_markdown()}\n[All rules](index.md) · [the guide](../doctor.md)\n"


def main() -> None:
    """Write the pages into the folder that is given, and remove those of rules that are no more."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/doctor")
    folder.mkdir(parents=True, exist_ok=True)
    pages = render_pages()
    for path in folder.glob("LT*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
