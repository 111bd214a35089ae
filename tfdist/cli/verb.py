"""Base of all verbs and their groups: how their errors look, their exit codes, and what a mistyped word may mean."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tfdist.errors import TfdistError, UsageError, WorkerFailedError


class Mistake(click.ClickException):
    """A command line that click refuses, said as all errors of tfdist are."""

    exit_code = UsageError.exit_code

    @classmethod
    def of(cls, error: click.UsageError) -> click.ClickException:
        """The error in tfdist's words; a group without a command, which shows its help, as it is."""
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            return error
        said = error.format_message().rstrip()
        dot = "" if said.endswith((".", "?")) else "."
        where = "" if error.ctx is None else f" Expected what `{error.ctx.command_path} --help` says."
        return cls(f"{said}{dot}{where}")

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class _HelpByALetter(click.Command):
    """A command that takes -h for --help."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["-h", "--help"]


class VerbGroup(_HelpByALetter, click.Group):
    """A group of verbs that says which one a mistyped word may mean."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        ctx.fail(f"No such command {name!r}.{self.hint(ctx, name)}")

    def hint(self, ctx: click.Context, name: str) -> str:
        """Returns what may have been meant by a word that is no verb, behind a space; empty where nothing is near."""
        # Imported here: a command that is there does not need it.
        import difflib

        near = " or ".join(repr(verb) for verb in difflib.get_close_matches(name.lower(), self.list_commands(ctx)))
        return f" Did you mean {near}?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands, each with a sentence on what it does, which is not cut."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(name, _first_sentence(command)) for name, command in commands.items() if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(command: click.Command) -> str:
    return command.short_help or " ".join((command.help or "").partition("\n\n")[0].split())


class Verb(_HelpByALetter):
    """A command whose `TfdistError` is one line on stderr and its exit code; `--verbose` adds the traceback.

    One with many options has them under headings: `--help` explains the common ones, `--help-all` all.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), click.Option(["--help-all"], **_HELP_ALL)]

    def own_sections(self) -> Mapping[str, Sequence[click.Option]]:
        """Headings of a verb's own, and the options below them."""
        return {}

    def help_record(self, ctx: click.Context, option: click.Option) -> tuple[str, str] | None:
        """Returns how an option is written, and what it does; None for one that is hidden."""
        record = option.get_help_record(ctx)
        # click puts a default in words into parentheses, and one that is a value not.
        return record and (record[0], re.sub(r"\[default: \((.*)\)(?=; |\])", r"[default: \1", record[1]))

    def shown_options(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Heading -> options."""
        # Imported here, and below: a verb that runs shows no help.
        from tfdist.cli.help.help_sections import sections

        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        return sections([option for option in options if not option.hidden], self.own_sections())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from tfdist.cli.help.help_sections import write_options

        by_heading = self.shown_options(ctx)
        options = [option for below in by_heading.values() for option in below]
        records = {str(option.name): record for option in options if (record := self.help_record(ctx, option))}
        write_options(ctx, formatter, by_heading, records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            word = next((word for word in given if word.startswith(option)), option).partition("=")[0]
            if option.startswith("--") or len(word) == len(option):
                raise
            # One dash before a long name: click reads its letters as options of their own.
            known = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
            meant = [f"-{word}"] if f"-{word}" in known else known
            raise click.NoSuchOption(word, possibilities=meant, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TfdistError as error:
            _fail(ctx, error)
        except RuntimeError as error:
            if "can't start new thread" not in str(error):
                raise
            _fail(
                ctx,
                WorkerFailedError(
                    "The system lets this user, or this container, start no more threads: other processes have as many "
                    "as there may be. Expected some hundreds for each worker. Raise the limit (ulimit -u, pids.max of "
                    "the control group), or start fewer workers here."
                ),
            )
        except (FileNotFoundError, SystemError):  # The second of an import, in Python 3.13.
            if not _is_working_directory_gone():
                raise
            _fail(
                ctx,
                UsageError(
                    "The working directory has been removed, and a relative path leads nowhere. Expected one that "
                    "exists. Change to another directory, or give absolute paths, --run-dir among them."
                ),
            )


def _show_all(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    from tfdist.cli.help.help_sections import HELP_ALL

    ctx.meta[HELP_ALL] = True
    click.echo(ctx.get_help(), color=ctx.color)
    ctx.exit()


_HELP_ALL: dict[str, Any] = {
    "is_flag": True,
    "is_eager": True,
    "expose_value": False,
    "callback": _show_all,
    "help": "Show all options, with what they do, and exit.",
}


def _fail(ctx: click.Context, error: TfdistError) -> None:
    if ctx.params.get("verbose"):
        traceback.print_exc(file=sys.stderr)
    click.echo(f"error: {error}", err=True)
    ctx.exit(error.exit_code)


def _is_working_directory_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
