"""Chosen hosts: what `--hostfile`, `--hosts`, `--include` and `--exclude` say together."""

from __future__ import annotations

from tfdist.errors import UsageError
from tfdist.multihost.hosts.host_filter import exclude, include
from tfdist.multihost.hosts.host_list import Host, parse_hosts
from tfdist.multihost.hosts.hostfile import read_hostfile


def choose_hosts(
    hostfile: str | None, hosts: str | None, included: str | None, excluded: str | None
) -> tuple[Host, ...]:
    """The hosts of a launch, in the order in which they were given; the first has the chief.

    Args:
        hostfile: `--hostfile`.
        hosts: `--hosts`.
        included: `--include`.
        excluded: `--exclude`.

    Raises:
        UsageError: No host is given, or in two ways; the file cannot be read; a filter does not fit.
    """
    if (hostfile is None) == (hosts is None):
        received = "neither" if hostfile is None else f"--hostfile {hostfile} and --hosts {hosts}"
        raise UsageError(
            f"Expected the hosts by --hostfile FILE or by --hosts h1,h2, one of the two. Received: {received}. "
            "To train on this machine alone: tfdist train"
        )
    if included is not None and excluded is not None:
        raise UsageError(
            "--include says which hosts to use, and --exclude which not. Expected one of the two. "
            f"Received: --include {included!r} --exclude {excluded!r}"
        )
    found, source = (
        (read_hostfile(hostfile), hostfile) if hostfile is not None else (parse_hosts(hosts or ""), "--hosts")
    )
    if included is not None:
        return include(found, included, source)
    return found if excluded is None else exclude(found, excluded, source)
