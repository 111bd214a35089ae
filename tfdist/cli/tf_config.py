"""`tfdist tf-config`: prints a worker's TF_CONFIG."""

from __future__ import annotations

import click

from tfdist.cli.verb import Verb
from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.tf_config import tf_config_json, tf_config_shell


@click.command("tf-config", cls=Verb)
@click.option("--workers", required=True, metavar="LIST", help="The whole cluster: host1:20000,host2:20000.")
@click.option("--index", required=True, type=int, metavar="I", help="Which entry of the list, from 0.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "shell"]),
    default="json",
    show_default=True,
    help='JSON, or an export line for `eval "$(...)"`.',
)
def tf_config_command(workers: str, index: int, form: str) -> None:
    """Prints the TF_CONFIG of one worker of a cluster."""
    write = tf_config_shell if form == "shell" else tf_config_json
    click.echo(write(Cluster.parse(workers), index))
