"""Discovers the cluster: from the command line, an existing TF_CONFIG, Kubernetes or a scheduler, in this order."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from tfdist.cluster.cluster_spec import Address, Cluster, is_loopback
from tfdist.cluster.kubernetes import indexed_job_membership
from tfdist.cluster.membership import Membership
from tfdist.cluster.mpi import (
    hydra_membership,
    is_bare_pmix_rank,
    is_hydra_rank,
    is_open_mpi_rank,
    open_mpi_membership,
    refuse_bare_pmix,
)
from tfdist.cluster.ports import candidate_ports
from tfdist.cluster.slurm import slurm_membership
from tfdist.cluster.tf_config import parse_tf_config
from tfdist.errors import ClusterError

RESOLVE_SECONDS = 10.0
# Reserved for documentation (RFC 5737, RFC 3849): no machine has them.
_UNASSIGNED = ("192.0.2.1", "2001:db8::1")

Resolve = Callable[[str], list[str]]


def resolve(host: str) -> list[str]:
    """The IP addresses of `host`, empty when it has none. Takes as long as the system's resolver takes."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def can_bind(address: str) -> bool:
    """Returns whether an interface of this machine has `address`: only then does the kernel let a socket be bound to
    it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # A link-local address comes with its zone, which getaddrinfo turns into a scope id.
            probe.bind(socket.getaddrinfo(address, 0, family, flags=socket.AI_NUMERICHOST)[0][4])
    except OSError:
        return False
    return True


def local_hosts(
    hosts: Iterable[str],
    *,
    resolver: Resolve = resolve,
    timeout: float = RESOLVE_SECONDS,
    can_bind: Callable[[str], bool] = can_bind,
) -> frozenset[str]:
    """Those of `hosts` that are this machine. A name that does not resolve in time counts only if it is its own.

    Args:
        hosts: Names and addresses of a worker list.
        timeout: Seconds for all look-ups together.
        can_bind: Whether an IP address is this machine's.

    Raises:
        ClusterError: This machine binds other machines' addresses too, so they cannot be told apart.
    """
    own_names = _own_names()
    wanted = set(hosts)
    local = {host for host in wanted if is_loopback(host) or host in own_names}
    others = wanted - local
    if not others:
        return frozenset(local)
    if any(can_bind(address) for address in _UNASSIGNED):
        raise ClusterError(
            "This machine binds addresses that are not its own (sysctl ip_nonlocal_bind), so tfdist cannot tell which "
            f"worker is this machine's. Expected: --index I with this machine's entry. Received: {sorted(others)}"
        )
    for host, addresses in _resolve_all(others, resolver, timeout).items():
        if any(is_loopback(address) or can_bind(address) for address in addresses):
            local.add(host)
    return frozenset(local)


def _own_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]})


def _resolve_all(hosts: Iterable[str], resolver: Resolve, timeout: float) -> dict[str, list[str]]:
    """Looks all names up at once, so that a resolver that does not answer delays many names no longer than one."""
    found: dict[str, list[str]] = {}
    left = set(hosts)
    done = threading.Condition()

    def look_up(host: str) -> None:
        addresses = resolver(host)
        with done:
            found[host] = addresses
            left.discard(host)
            done.notify()

    for host in tuple(left):
        threading.Thread(target=look_up, args=(host,), name=f"tfdist-resolve-{host}", daemon=True).start()
    with done:
        done.wait_for(lambda: not left, timeout)
        return dict(found)


FindLocal = Callable[[Iterable[str]], frozenset[str]]


def discover(
    workers: str | None = None,
    index: int | None = None,
    nproc: int | None = None,
    environ: Mapping[str, str] | None = None,
    find_local: FindLocal = local_hosts,
) -> Membership:
    """Discovers the cluster, and which of its workers this launcher starts.

    Args:
        workers: `--workers`: the whole cluster as host:port, comma-separated.
        index: `--index`: start this entry of `workers` only.
        nproc: `--nproc`: this many workers on this machine, on chosen ports.
        environ: Has TF_CONFIG, and the variables of Kubernetes and of schedulers; None for this process's environment.
        find_local: Returns which of some hosts are this machine.

    Raises:
        ClusterError: The options or the environment do not describe a cluster with a worker on this machine.
    """
    environ = os.environ if environ is None else environ
    if workers is not None and nproc is not None:
        raise ClusterError(
            "--workers gives the whole cluster and --nproc makes one of this machine alone: give one of the two. "
            f"Received: --workers {workers} --nproc {nproc}"
        )
    if index is not None and workers is None:
        raise ClusterError(f"--index picks an entry of --workers: give the list too. Received: --index {index}")
    if workers is not None:
        return _from_list(Cluster.parse(workers), index, find_local)
    if nproc is not None:
        return _from_count(nproc)
    if environ.get("TF_CONFIG", "").strip():
        return _from_tf_config(environ["TF_CONFIG"], find_local)
    return indexed_job_membership(environ) or _from_scheduler(environ) or Membership(None, (0,))


def _from_scheduler(environ: Mapping[str, str]) -> Membership | None:
    # The ranks of an mpirun in a Slurm job's script have the job's variables too: mpirun has started this process.
    if is_open_mpi_rank(environ):
        return open_mpi_membership(environ)
    if is_hydra_rank(environ):
        return hydra_membership(environ)
    if is_bare_pmix_rank(environ):
        raise refuse_bare_pmix(environ)
    return slurm_membership(environ)


def _from_list(cluster: Cluster, index: int | None, find_local: FindLocal) -> Membership:
    if index is not None:
        return _one_entry(cluster, cluster.check_index(index), "--workers and --index", find_local)
    here = _entries_here(cluster, find_local)
    if not here:
        raise ClusterError(
            "None of the workers is this machine, by its names or by the addresses of its interfaces. Expected the "
            "list to name this host, or --index I to say which entry it is (where addresses are translated, say). "
            f"Received: --workers {cluster.brief}"
        )
    _check_ports(cluster, here)
    if len(cluster) == 1:
        return Membership(None, (0,), source="--workers with one entry")
    return Membership(cluster, here, source="--workers")


def _from_count(nproc: int) -> Membership:
    if nproc < 1:
        raise ClusterError(f"--nproc needs at least one worker. Received: --nproc {nproc}")
    if nproc == 1:
        return Membership(None, (0,), source="--nproc 1")
    ports = list(islice(candidate_ports(random.randrange(1 << 30)), nproc))
    if len(ports) < nproc:
        raise ClusterError(f"--nproc asks for more workers than there are ports. Received: --nproc {nproc}")
    cluster = Cluster(tuple(Address("127.0.0.1", port) for port in ports))
    return Membership(cluster, tuple(range(nproc)), ports_chosen=True, source=f"--nproc {nproc}")


def _from_tf_config(text: str, find_local: FindLocal) -> Membership:
    cluster, index = parse_tf_config(text)
    if len(cluster) == 1:
        return Membership(None, (0,), source="TF_CONFIG with one worker")
    return _one_entry(cluster, index, "TF_CONFIG", find_local)


def _one_entry(cluster: Cluster, index: int, source: str, find_local: FindLocal) -> Membership:
    """One worker of a cluster, of which this machine may run several, each by a launcher of its own."""
    if len(cluster) == 1:
        return Membership(None, (0,), source=source)
    own_host = cluster.workers[index].host
    same_host = {i for i, address in enumerate(cluster.workers) if address.host == own_host}
    try:
        here = set(_entries_here(cluster, find_local))
    except ClusterError:
        # Which entries are this machine's cannot be known; --index is given for this case.
        here = set()
    machine = tuple(sorted(same_host | (here if index in here else set())))
    _check_ports(cluster, machine)
    return Membership(cluster, (index,), machine, source=source)


def _entries_here(cluster: Cluster, find_local: FindLocal) -> tuple[int, ...]:
    local = find_local({address.host for address in cluster.workers})
    return tuple(index for index, address in enumerate(cluster.workers) if address.host in local)


def _check_ports(cluster: Cluster, machine: tuple[int, ...]) -> None:
    seen: dict[int, int] = {}
    for index in machine:
        port = cluster.workers[index].port
        if port in seen:
            raise ClusterError(
                f"Workers {seen[port]} and {index} are both this machine's and need different ports, because "
                "TensorFlow's server listens on every address of its machine. "
                f"Received: {cluster.workers[seen[port]]} and {cluster.workers[index]}"
            )
        seen[port] = index
