"""lowtide doctor PATH..."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lowtide.errors import LowtideError
from lowtide.progress import Progress
from lowtide.units import format_count, parse_bytes

if TYPE_CHECKING:
    from lowtide.doctor.checkup import Checkup, Task
    from lowtide.doctor.problem import Mistake
    from lowtide.doctor.settings import DoctorSettings

_FORMATS = ("text", "json", "sarif", "github")
_STANDARD_INPUT = "-"
_EXAMPLE = "give files or folders, for example: lowtide doctor ."


@click.command()
@click.option("--select", multiple=True, metavar="CODES", help="Apply only these rules: LT103, or LT1 for all LT1xx.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Leave out these rules.")
@click.option("--fix", "is_fix", is_flag=True, help="Show the safe corrections as a diff, ask, and write them.")
@click.option("--yes", is_flag=True, help="With --fix: write without asking.")
@click.option("--format", "form", type=click.Choice(_FORMATS), help="The form of the output; text by default.")
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@click.option("--explain", metavar="CODE", help="Explain a rule, with examples; or all, as a table.")
@click.option("--list", "is_list", is_flag=True, help="List all rules.")
@click.option("--live", is_flag=True, help="Build the TARGET, and report what would save memory, with the bytes.")
@click.option("--batch-size", type=int, metavar="N", help="With --live: the number of rows of a batch.")
@click.option("--budget", type=parse_bytes, metavar="BYTES", help="With --live: the memory that the step may take.")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(path_type=Path))
def command(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    is_fix: bool,
    yes: bool,
    form: str | None,
    as_json: bool,
    explain: str | None,
    is_list: bool,
    live: bool,
    batch_size: int | None,
    budget: int | None,
) -> int:
    """Find memory mistakes in TensorFlow and Keras code by reading it; nothing is executed.

    PATH is a Python file, a notebook, a Markdown file, a folder, or - for standard input. Folders are read without what
    git ignores and without environments, builds and hidden folders. The table [tool.lowtide.doctor] of pyproject.toml
    may have the lists select, ignore and exclude; --select and --ignore take their place. A comment
    "# lowtide: ignore[LT103]" accepts what is found in its line, "# lowtide: ignore-file[LT103]" in its file.

    With --live, PATH is a TARGET as for lowtide predict, such as train.py:build. It is built as predict does, and what
    reading cannot see is reported with the bytes that each remedy saves.

    Exits 0 if there are no problems, 1 if there are, 2 on a usage error.
    """
    if live:
        return _examine(paths, (*select, *ignore), is_fix, form, as_json, batch_size, budget)
    if batch_size is not None or budget is not None:
        option = "--batch-size" if batch_size is not None else "--budget"
        raise LowtideError(f"{option} is for --live", cure="add --live, or leave it out")
    if as_json and form not in (None, "json"):
        raise LowtideError("--json is one form of output", given=f"--format {form}", cure="give one of the two")
    form = "json" if as_json else form or "text"
    if explain is not None or is_list:
        return _explain("all" if explain is None else explain, form)
    if not paths:
        raise LowtideError("nothing to read", cure=_EXAMPLE)
    if yes and not is_fix:
        raise LowtideError("--yes is for --fix", cure="add --fix, or leave out --yes")
    if is_fix and form != "text":
        raise LowtideError("--fix shows a diff", given=form, cure="leave out --fix, or the form of the output")
    checkup, tasks = _check(paths, select, ignore, has_input=not is_fix)
    if is_fix:
        from lowtide.cli.doctor_fix import fix

        left, has_failed = fix(checkup, tasks, is_agreed=yes)
        show(left, [str(path) for path in paths])
        return 1 if left.mistakes or has_failed else 0
    _emit(checkup, form, [str(path) for path in paths])
    return 1 if checkup.mistakes else 0


def _examine(
    paths: Sequence[Path],
    codes: Sequence[str],
    is_fix: bool,
    form: str | None,
    as_json: bool,
    batch_size: int | None,
    budget: int | None,
) -> int:
    """Report what would save memory in the program that a target builds."""
    if codes or is_fix or form not in (None, "text", "json"):
        cure = "leave out --select, --ignore, --fix, and --format but for text and json"
        raise LowtideError("--live applies no rules", cure=cure)
    if len(paths) != 1:
        cure = "for example: lowtide doctor train.py:build --live"
        raise LowtideError("--live takes one TARGET", given=" ".join(map(str, paths)) or "none", cure=cure)
    from lowtide.cli.doctor_live import examine

    return examine(str(paths[0]), batch_size, budget, as_json=as_json or form == "json")


def _explain(code: str, form: str) -> int:
    """Print the explanation of a rule, or the table of all rules."""
    from lowtide.doctor.explanation import explain_all, explain_rule

    if form not in ("text", "json"):
        raise LowtideError("explanations are text or JSON", given=f"--format {form}", cure="leave it out")
    rules = explain_all() if code.lower() == "all" else [explain_rule(code)]
    if form == "json":
        from lowtide.view.doctor.json_report import rules_to_dict

        click.echo(json.dumps(rules_to_dict(rules), indent=2))
        return 0
    from rich.console import Console

    from lowtide.view.doctor.explanation import TerminalExplanation, render_rules

    console = Console()
    if code.lower() == "all":
        for line in render_rules(rules):
            console.print(line, soft_wrap=True)
    elif console.is_terminal:
        console.print(TerminalExplanation(rules[0]))
    else:
        click.echo(rules[0].to_markdown(), nl=False)
    return 0


def _check(
    paths: Sequence[Path], select: Sequence[str], ignore: Sequence[str], *, has_input: bool
) -> tuple[Checkup, list[Task]]:
    """Check the files, and return what was found with the settings of each file."""
    from lowtide.cli.output import progress
    from lowtide.doctor.checkup import Checkup, check_files
    from lowtide.doctor.settings import check_codes

    options = check_codes(select, "--select"), check_codes(ignore, "--ignore")
    has_standard_input = _STANDARD_INPUT in map(str, paths)
    if has_standard_input and not has_input:
        raise LowtideError("--fix writes files", given=_STANDARD_INPUT, cure="give the name of a file")
    with progress("looking for files") as on_progress:
        tasks = _find_tasks(paths, options)
        count = len(tasks)
        found = check_files(
            tasks, lambda done: on_progress(Progress(f"reading {format_count(count, 'file')}", done, count))
        )
    if has_standard_input:
        file, mistakes = _check_standard_input(options)
        found = Checkup((*found.files, file), (*found.mistakes, *mistakes))
    if not found.files:
        click.echo("nothing to check: there are no Python files, notebooks or Markdown files", err=True)
    return found, tasks


def _find_tasks(paths: Sequence[Path], options: tuple[tuple[str, ...], tuple[str, ...]]) -> list[Task]:
    """Return the files to check, each once, with their settings."""
    from lowtide.doctor.reading.files import find_files

    found: dict[Path, DoctorSettings] = {}
    for path in paths:
        if str(path) == _STANDARD_INPUT:
            continue
        if not path.exists():
            raise LowtideError("there is no such file or folder", given=path, cure=_nearest(path) or _EXAMPLE)
        settings = _settings(path, options)
        for file in find_files(path, settings.excluded) if path.is_dir() else [path]:
            found.setdefault(file, settings)
    return list(found.items())


def _settings(path: Path, options: tuple[tuple[str, ...], tuple[str, ...]]) -> DoctorSettings:
    """Return the settings for a path: those of its pyproject.toml, with the options in their place."""
    from lowtide.doctor.settings import find_settings

    select, ignore = options
    found = find_settings(path)
    return replace(found, select=select or found.select, ignore=ignore or found.ignore)


def _nearest(path: Path) -> str | None:
    from difflib import get_close_matches

    folder = path.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    near = get_close_matches(path.name, names, n=1)
    return f"did you mean {path.with_name(near[0])}?" if near else None


def _check_standard_input(options: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[Path, list[Mistake]]:
    """Check the code, or the notebook, on standard input."""
    from lowtide.doctor.checkup import check_content

    content = sys.stdin.buffer.read()
    # No program begins with this character, but each notebook does.
    path = Path("stdin.ipynb" if content.lstrip().startswith(b"{") else "stdin")
    return path, check_content(path, content, _settings(Path(), options))


def _emit(checkup: Checkup, form: str, arguments: Sequence[str]) -> None:
    """Print the problems."""
    if form == "text":
        show(checkup, arguments)
    elif form == "json":
        from lowtide.view.doctor.json_report import checkup_to_dict

        click.echo(json.dumps(checkup_to_dict(checkup), indent=2))
    else:
        from lowtide.doctor.explanation import explain_all

        rules = explain_all()
        if form == "github":
            from lowtide.view.doctor.github import render_github

            click.echo(render_github(checkup, {rule.code: rule.name for rule in rules}), nl=False)
        else:
            from lowtide.view.doctor.sarif import render_sarif

            click.echo(json.dumps(render_sarif(checkup, rules, _version(), _site()), indent=2))


def show(checkup: Checkup, arguments: Sequence[str]) -> None:
    """Print the problems as text."""
    from rich.console import Console

    from lowtide.view.doctor.terminal import TerminalCheckup, render_text

    console = Console()
    if not checkup.files:
        return
    if console.is_terminal:
        console.print(TerminalCheckup(checkup, arguments))
    else:
        click.echo(render_text(checkup, arguments), nl=False)


def _version() -> str:
    import lowtide

    return lowtide.__version__


def _site() -> str | None:
    """Return the address of the documentation; None if the package names none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        addresses = metadata("lowtide").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(address.split(", ", 1) for address in addresses if ", " in address)
    return named["Documentation"].rstrip("/") if "Documentation" in named else None
