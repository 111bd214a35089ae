"""Base of all verbs: how their errors look, and their exit codes."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import click

from tfdist.errors import TfdistError


class Verb(click.Command):
    """A command whose `TfdistError` is one line on stderr and its exit code; `--verbose` adds the traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TfdistError as error:
            if ctx.params.get("verbose"):
                traceback.print_exc(file=sys.stderr)
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)
