"""`tfdist examples`: lists the examples, and writes them into a folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tfdist.cli.common_options import LocalPath
from tfdist.cli.verb import Verb, VerbGroup


@click.command("list", cls=Verb)
def list_examples() -> None:
    """Lists the examples, with what each shows."""
    from tfdist.examples import catalog

    found = catalog()
    width = max(len(example.path) for example in found)
    for example in found:
        click.echo(f"{example.path:{width}}  {example.text}")
    click.echo("\nto have them: tfdist examples copy DIR")


@click.command("copy", cls=Verb)
@click.argument("directory", metavar="DIR", type=LocalPath(path_type=Path))
def copy(directory: Path) -> None:
    """Writes the examples and their configs into DIR, where the commands of the README run.

    DIR is made if it is not there, and may hold other files. Nothing is overwritten. Exit codes: 0; 2 when a file of
    the same name and other content is there, or DIR cannot be written.
    """
    from tfdist.examples import copy_examples

    done = copy_examples(directory)
    there = f"; {len(done.present)} were there already" if done.present else ""
    click.echo(f"{len(done.written)} files written into {directory}{there}")
    change = "" if directory.absolute() == Path.cwd() else f"cd {shlex.quote(str(directory))} && "
    click.echo(f"next: {change}tfdist train configs/digits.yaml")


@click.group(cls=VerbGroup)
def examples() -> None:
    """Lists the examples and their configs, and copies them."""


examples.add_command(list_examples)
examples.add_command(copy)
