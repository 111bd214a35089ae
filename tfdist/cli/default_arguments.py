"""Defaults of verbs whose command line names none: ./tfdist.yaml, and the newest run in ./runs; a line says which."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from tfdist.cli.common_options import Decorator, LocalPath
from tfdist.cli.train_target import DEFAULT_CONFIG


def config_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """`[CONFIG]`, as `path`."""
    return click.argument("path", metavar="[CONFIG]", required=False, callback=_config, type=LocalPath())(command)


def run_argument(name: str = "run_dir", metavar: str = "[RUN_DIR]", kind: click.ParamType | None = None) -> Decorator:
    """`[RUN_DIR]`: a run directory, by default the newest in ./runs.

    Args:
        metavar: What the help calls it.
        kind: Its type; None for a path of this machine.
    """
    return click.argument(name, metavar=metavar, required=False, callback=_run, type=kind or LocalPath())


def _config(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None or ctx.resilient_parsing:
        return given
    if not os.path.exists(DEFAULT_CONFIG):
        raise click.UsageError(
            f"No config was given, and the default ./{DEFAULT_CONFIG} does not exist. Received: no CONFIG, in the "
            f"directory {os.getcwd()}. `tfdist config init DATA` writes one.",
            ctx,
        )
    _say(f"./{DEFAULT_CONFIG} is taken, as no config was given", ctx)
    return DEFAULT_CONFIG


def _run(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None or ctx.resilient_parsing:
        return given
    # Imported here: `--help` does not need it.
    from pathlib import Path

    from tfdist.rundir.run_dir_creation import DEFAULT_PARENT
    from tfdist.rundir.run_snapshot import runs_below

    runs = runs_below(Path(DEFAULT_PARENT))
    if not runs:
        raise click.UsageError(
            f"No run was given, and there is none in ./{DEFAULT_PARENT}. Received: no RUN_DIR, in the directory "
            f"{os.getcwd()}. `tfdist train` says at its start where a run writes.",
            ctx,
        )
    newest = os.path.join(DEFAULT_PARENT, runs[-1].name)
    _say(f"{newest} is taken, the newest run in ./{DEFAULT_PARENT}", ctx)
    return newest


def _say(text: str, ctx: click.Context) -> None:
    if not ctx.params.get("quiet"):
        click.echo(f"tfdist: {text}", err=True)
