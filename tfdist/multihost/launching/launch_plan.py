"""Launch plan: the cluster that the hosts' answers make."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.errors import UsageError
from tfdist.multihost.hosts.host_list import Host
from tfdist.multihost.launching.host_problems import names
from tfdist.multihost.launching.protocol import HostFacts


def plan_cluster(found: Mapping[Host, HostFacts]) -> Cluster:
    """The workers of all hosts, host by host; the first host has the chief.

    Workers get the address by which ssh reached their host, which needs no name on the others. Where that is one of
    loopback, or is translated on the way, they get the host's name.

    Raises:
        UsageError: Two names are the same host.
        ClusterError: The addresses make no cluster.
    """
    seen: dict[tuple[str, str], str] = {}
    for host, facts in found.items():
        other = seen.setdefault((facts.boot, facts.host), host.name)
        if other != host.name:
            raise UsageError(
                f"{other} and {host.name} are the same host, {facts.host}. Expected each once. For several workers on "
                "each host, add --workers-per-host N. Nothing was started."
            )
    places = [(facts.address or host.name, port) for host, facts in found.items() for port in facts.ports]
    return Cluster(tuple(Address(address, port) for address, port in places))


def unused_slots(found: Mapping[Host, HostFacts]) -> str:
    """Returns what to say of hosts whose slots stand for nothing, as they have no GPU; empty where there are none."""
    hosts = [host.name for host, facts in found.items() if host.slots and not facts.gpus]
    if not hosts:
        return ""
    return (
        f"note: no GPU on {names(hosts)}, so slots do not count there; --workers-per-host N says how many workers run"
    )
