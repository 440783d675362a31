"""The command line: one file for each verb, whose docstring is its help.

The room may import every other room; nothing imports it. TensorFlow is imported only when a verb that needs it runs.
"""

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper

import click

import lowtide
from lowtide.errors import LowtideError

_VERBS = ("predict", "plan", "run", "train", "doctor", "explain", "view", "graph")


class _Verbs(click.Group):
    """Imports the file of a verb when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        command: click.Command = import_module(f"lowtide.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            near = get_close_matches(args[0], _VERBS, n=1)
            cure = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(_VERBS)}; see lowtide --help"
            raise LowtideError("no such command", given=args[0], cure=cure)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their whole summaries, which click would cut."""
        commands = {name: self.get_command(ctx, name) for name in _VERBS}
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(each)) for name, each in commands.items() if each is not None])


def _summary(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lowtide.__version__, prog_name="lowtide")
def program() -> None:
    """Know what a TensorFlow training step will take in memory before it runs."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exits 0 for yes, 1 for "no, it does not fit", 2 for a usage error, printed in one line."""
    for stream in (sys.stdout, sys.stderr):
        # The curve needs more than ASCII; with an ASCII-only stream, a "?" is better than no report.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        # Not program.main: it exits with 1 on a broken pipe, which here means "it does not fit".
        with program.make_context("lowtide", sys.argv[1:] if arguments is None else list(arguments)) as context:
            code = program.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        _fail(error.format_message())
    except LowtideError as error:
        _fail(error.command_line())
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe has closed it; without this, Python would report an error again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)
