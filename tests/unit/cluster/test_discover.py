from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tfdist.cluster import Cluster, Membership, discover
from tfdist.errors import ClusterError


def here(hosts: Iterable[str]) -> frozenset[str]:
    """This machine is called `here` and 10.0.0.1."""
    return frozenset(hosts) & {"here", "10.0.0.1", "127.0.0.1", "127.0.0.2"}


def find(workers: str | None = None, index: int | None = None, nproc: int | None = None, **environ: str) -> Membership:
    return discover(workers, index, nproc, environ, here)


TF_CONFIG = json.dumps({"cluster": {"worker": ["here:1", "b:1", "10.0.0.1:2"]}, "task": {"type": "worker", "index": 2}})

SLURM_JOB = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "here"}
SLURM_STEP = {**SLURM_JOB, "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "3", "PMIX_NAMESPACE": "job"}


@pytest.mark.parametrize(
    ("arguments", "workers", "local", "machine"),
    [
        ({}, 1, (0,), (0,)),
        ({"nproc": 1}, 1, (0,), (0,)),
        ({"nproc": 3}, 3, (0, 1, 2), (0, 1, 2)),
        ({"workers": "here:1"}, 1, (0,), (0,)),
        ({"workers": "here:1,b:1"}, 2, (0,), (0,)),
        ({"workers": "b:1,here:1,c:1,10.0.0.1:2"}, 4, (1, 3), (1, 3)),  # by name and by address
        ({"workers": "127.0.0.1:1,127.0.0.2:2", "index": 1}, 2, (1,), (0, 1)),  # the other has its own launcher
        ({"workers": "nat:1,nat:2,b:1", "index": 1}, 3, (1,), (0, 1)),  # unknown addresses of one host
        ({"workers": "here:1,nat:2,b:1", "index": 1}, 3, (1,), (1,)),
        ({"TF_CONFIG": TF_CONFIG}, 3, (2,), (0, 2)),
        ({"TF_CONFIG": TF_CONFIG, "nproc": 2}, 2, (0, 1), (0, 1)),  # the command line decides
        ({"TF_CONFIG": TF_CONFIG, "workers": "here:5,b:5"}, 2, (0,), (0,)),
        ({"TF_CONFIG": " "}, 1, (0,), (0,)),
        ({"TF_CONFIG": '{"cluster": {"chief": ["x:1"]}, "task": {"type": "chief", "index": 0}}'}, 1, (0,), (0,)),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}, 1, (0,), (0,)),
        # mpirun within a Slurm job: its ranks have the variables of the job's script, or of the step that started them
        ({**SLURM_JOB, **MPI, "OMPI_COMM_WORLD_SIZE": "3"}, 3, (1,), (0, 1, 2)),
        ({**SLURM_STEP, **MPI, "OMPI_COMM_WORLD_SIZE": "3"}, 3, (1,), (0, 1, 2)),
        ({**SLURM_JOB, **MPI, "OMPI_COMM_WORLD_SIZE": "1"}, 1, (0,), (0,)),
        (SLURM_STEP, 2, (0,), (0,)),
    ],
)
def test_the_workers_that_this_launcher_starts(
    arguments: dict[str, Any], workers: int, local: tuple[int, ...], machine: tuple[int, ...]
) -> None:
    found = find(**arguments)
    assert (found.num_workers, found.local, found.machine) == (workers, local, machine)
    assert (found.cluster is None) == (workers == 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"workers": "b:1,c:1"}, "None of the workers is this machine"),
        ({"workers": "here:1,b:1", "index": 2}, "0 to 1"),
        ({"workers": "here:1", "index": -1}, "0 to 0"),
        ({"workers": "here:1,10.0.0.1:1"}, "different ports"),  # one machine by two of its addresses
        ({"workers": "here:1,10.0.0.1:1", "index": 0}, "different ports"),
        ({"workers": "", "nproc": None}, "at least one worker"),
        ({"workers": "here:1", "nproc": 2}, "one of the two"),
        ({"index": 0}, "give the list too"),
        ({"nproc": 0}, "at least one worker"),
        ({"nproc": 20_000}, "more workers than there are ports"),
        ({"TF_CONFIG": "nonsense"}, "not valid JSON"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        find(**arguments)
    assert says in str(raised.value)


def test_chosen_ports_are_on_loopback_below_the_ephemeral_ones() -> None:
    found = find(nproc=4)
    assert found.ports_chosen and found.cluster is not None
    assert {address.host for address in found.cluster.workers} == {"127.0.0.1"}
    assert all(20000 <= address.port < 32000 for address in found.cluster.workers)


@pytest.mark.parametrize(
    ("local", "machine"), [((), ()), ((1, 0), ()), ((0, 0), ()), ((2,), ()), ((0,), (1,)), ((-1,), ())]
)
def test_a_membership_checks_itself(local: tuple[int, ...], machine: tuple[int, ...]) -> None:
    with pytest.raises(ClusterError):
        Membership(Cluster.parse("a:1,b:1"), local, machine)


def test_a_membership_has_local_and_remote_workers() -> None:
    found = Membership(Cluster.parse("a:1,b:1,c:1"), (1,))
    assert (found.remote, found.has_chief, found.machine) == ((0, 2), False, (1,))
