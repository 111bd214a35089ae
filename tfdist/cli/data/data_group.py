"""`tfdist data`: makes, checks and indexes files of samples."""

from __future__ import annotations

import click

from tfdist.cli.data.check import check
from tfdist.cli.data.index import index
from tfdist.cli.data.predict import predict
from tfdist.cli.data.shard import shard
from tfdist.cli.verb import VerbGroup


@click.group(cls=VerbGroup)
def data() -> None:
    """Makes, checks and indexes files of samples, and keeps what a model says of them."""


data.add_command(shard)
data.add_command(check)
data.add_command(index)
data.add_command(predict)
