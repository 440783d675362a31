"""The explanation of a rule, and the table of all rules, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from lowtide.doctor.explanation import Explanation

_WIDEST = 110


class TerminalExplanation:
    """An explanation with its examples; `Explanation.to_markdown` is the same for files and pipes."""

    def __init__(self, rule: Explanation) -> None:
        self.rule = rule

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the mistake, why it is one, and the examples."""
        rule = self.rule
        yield Text()
        yield Padding(Text.assemble((rule.code, "bold cyan"), (f"  {rule.name}", "bold")), (0, 0, 0, 2))
        yield Text()
        width = min(options.max_width, _WIDEST)
        yield Padding(Markdown(rule.text), (0, max(0, options.max_width - width), 0, 2))
        for heading, code in rule.examples():
            yield Text()
            yield Padding(Text(heading.lower(), "bold"), (0, 0, 0, 2))
            yield Padding(Syntax(code, "python", background_color="default", word_wrap=True), (0, 0, 0, 4))
        yield Text()


def render_rules(rules: Sequence[Explanation]) -> Iterator[Text]:
    """Yield a line for each rule, by groups: its code, its mistake, and whether --fix corrects it."""
    for group, members in groupby(rules, key=lambda rule: rule.group):
        yield Text(group, "bold")
        for rule in members:
            yield Text.assemble((rule.code, "cyan"), f"  {rule.name}", (" (--fix)" * rule.is_fixable, "green"))
        yield Text()
    yield Text("lowtide doctor --explain CODE explains one", "dim")
