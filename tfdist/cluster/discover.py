"""Discovers the cluster: from the command line, an existing TF_CONFIG, Kubernetes or a scheduler, in this order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.cluster.kubernetes import indexed_job_membership
from tfdist.cluster.local_hosts import local_hosts
from tfdist.cluster.membership import Membership
from tfdist.cluster.mpi.hydra import hydra_membership, is_bare_pmix_rank, is_hydra_rank, refuse_bare_pmix
from tfdist.cluster.mpi.open_mpi import is_open_mpi_rank, open_mpi_membership
from tfdist.cluster.ports import candidate_ports
from tfdist.cluster.slurm import slurm_membership
from tfdist.cluster.tf_config import parse_tf_config
from tfdist.errors import ClusterError

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
