"""`tfdist board`: the runs of a folder on a page of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfdist.cli import common_options as shared
from tfdist.cli.verb import Verb

if TYPE_CHECKING:
    from tfdist.board.request_guard import Guard


_LOOPBACK = "127.0.0.1"


@click.command(cls=Verb)
@click.argument("folder", metavar="[FOLDER]", default="runs", type=shared.LocalPath())
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, show_default="any that is free", metavar="PORT",
    help="The port of the page.",
)  # fmt: skip
@click.option(
    "--host", default=_LOOPBACK, show_default=True, metavar="ADDRESS",
    help="The IP address to listen on; another than this machine's own loopback is reached by others, unencrypted.",
)  # fmt: skip
@shared.tracebacks
@click.pass_context
def board(ctx: click.Context, folder: str, port: int, host: str, verbose: bool) -> None:
    """Shows the runs of a folder on a page for the browser, live, and compares them.

    FOLDER is what holds the run directories of `tfdist train`, or one of these; by default ./runs. Of each run the page
    has the curves, the workers, where the time went, logs and failures; also of a folder that was copied here. It only
    reads, and whoever opens it needs the token in the address that is printed. Needs the extra: pip install
    'tfdist[board]'. Exits with 130 when Ctrl-C ends it; with 2 when FOLDER or the port cannot be used.
    """
    from tfdist.board.board_folder import BoardFolder
    from tfdist.board.board_server import serve

    shown = BoardFolder(folder)
    ctx.exit(serve(shown, host, port, lambda guard: _announce(str(shown.path), guard)))


def _announce(folder: str, guard: Guard) -> None:
    import ipaddress
    import socket

    if not ipaddress.ip_address(guard.host).is_loopback:
        click.echo(
            f"warning: --host {guard.host} lets other machines in: whoever reads the network sees the token and the "
            "page. 127.0.0.1, the default, with `ssh -L` is encrypted.",
            err=True,
        )
    click.echo(f"{folder}: {guard.url}")
    if ipaddress.ip_address(guard.host).is_loopback:
        port, here = guard.port, socket.gethostname()
        click.echo(f"from another machine: ssh -N -L {port}:127.0.0.1:{port} {here}, then the same address there")
    click.echo("Ctrl-C ends it")
