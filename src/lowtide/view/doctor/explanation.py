"""The explanation of a rule, and the table of all rules, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from lowtide.doctor.explanation import Explanation

_WIDEST = 110


class TerminalExplanation:
    """An explanation with its examples; where the output is no terminal, it is Markdown."""

    def __init__(self, rule: Explanation) -> None:
        self.rule = rule

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the mistake, why it is one, and the examples."""
        rule = self.rule
        if not console.is_terminal:
            for line in rule.to_markdown().rstrip("\n").split("\n"):
                yield Text(line, no_wrap=True, overflow="ignore")
            return
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


class TerminalRules:
    """A table of rules."""

    def __init__(self, rules: Sequence[Explanation]) -> None:
        self.rules = rules

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a line for each rule: its code, its mistake, and whether --fix corrects it; by groups."""
        group = None
        for rule in self.rules:
            if rule.group != group:
                group = rule.group
                yield Text()
                yield Text(group, "bold")
            table = Table.grid(padding=(0, 2, 0, 0))
            name = f"{rule.name} (--fix)" if rule.is_fixable else rule.name
            table.add_row(Text(rule.code, "cyan"), Text(name))
            yield table
        yield Text()
        yield Text("lowtide doctor --explain CODE explains one", "dim")
