"""`tfdist config`: shows and checks configs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tfdist.cli.common_options import overrides
from tfdist.cli.verb import Verb, VerbGroup
from tfdist.config.load import dump_yaml, load_config


def config_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the option that both verbs take."""
    return click.argument("path", metavar="CONFIG", type=click.Path())(overrides(command))


@click.group(cls=VerbGroup)
def config() -> None:
    """Shows or checks a config."""


@config.command(cls=Verb)
@config_arguments
def show(path: str, overrides: tuple[str, ...]) -> None:
    """Prints a config as a run would see it: with overrides, every default and absolute file names."""
    click.echo(dump_yaml(load_config(path, overrides)), nl=False)


@config.command(cls=Verb)
@config_arguments
def check(path: str, overrides: tuple[str, ...]) -> None:
    """Checks a config without running it; exits with 2 when it cannot be used."""
    load_config(path, overrides)
    click.echo(f"{path}: ok")
