"""`tfdist examples`: lists the examples, and writes them into a folder."""

from __future__ import annotations

import click

from tfdist.cli.examples.copy_examples import copy
from tfdist.cli.examples.list_examples import list_examples
from tfdist.cli.verb import VerbGroup


@click.group(cls=VerbGroup)
def examples() -> None:
    """Lists the examples and their configs, and copies them."""


examples.add_command(list_examples)
examples.add_command(copy)
