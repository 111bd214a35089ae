"""Base of all verbs and their groups: how their errors look, their exit codes, and what a mistyped word may mean."""

from __future__ import annotations

import os
import sys
import traceback
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
        """What may have been meant by a word that is no verb, behind a space; empty where nothing is near."""
        # Imported here: a command that is there does not need it.
        import difflib

        near = " or ".join(repr(verb) for verb in difflib.get_close_matches(name.lower(), self.list_commands(ctx)))
        return f" Did you mean {near}?" if near else ""


class Verb(_HelpByALetter):
    """A command whose `TfdistError` is one line on stderr and its exit code; `--verbose` adds the traceback."""

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
        except FileNotFoundError:
            if not _is_working_directory_gone():
                raise
            _fail(
                ctx,
                UsageError(
                    "The working directory has been removed, and a relative path leads nowhere. Expected one that "
                    "exists. Change to another directory, or give absolute paths, --run-dir among them."
                ),
            )


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
