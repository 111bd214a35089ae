"""Base of all verbs: how their errors look, and their exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import click

from tfdist.errors import TfdistError, UsageError


class Verb(click.Command):
    """A command whose `TfdistError` is one line on stderr and its exit code; `--verbose` adds the traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TfdistError as error:
            _fail(ctx, error)
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
