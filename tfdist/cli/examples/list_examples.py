"""`tfdist examples list`: what there is."""

from __future__ import annotations

import click

from tfdist.cli.verb import Verb


@click.command("list", cls=Verb)
def list_examples() -> None:
    """Lists the examples, with what each shows."""
    from tfdist.examples import catalog

    found = catalog()
    width = max(len(example.path) for example in found)
    for example in found:
        click.echo(f"{example.path:{width}}  {example.text}")
    click.echo("\nto have them: tfdist examples copy DIR")
