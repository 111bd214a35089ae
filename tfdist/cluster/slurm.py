"""Slurm: the cluster from the variables that srun sets for each task (https://slurm.schedmd.com/srun.html).

Each task runs its own `tfdist train` and starts its own worker. TensorFlow's own resolver is not used: it fails on
nodes without GPUs, and sorts host names as text, so that node10 comes before node2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import END_PORT, FIRST_PORT
from tfdist.cluster.slurm_gpus import has_own_gpus
from tfdist.cluster.slurm_lists import expand_counts, expand_hosts
from tfdist.errors import ClusterError

# Ports of one job step: other jobs on the same node, which have nearby ids, get other blocks.
_BLOCK = 64
_BLOCKS = (END_PORT - FIRST_PORT) // _BLOCK
_STEP_STRIDE = 31

_SHOWN = 8


def slurm_membership(environ: Mapping[str, str]) -> Membership | None:
    """This task's membership; None outside an srun task, or when the step has one task.

    Raises:
        ClusterError: The variables contradict one another, or several tasks have the same GPU.
    """
    if "SLURM_PROCID" not in environ or "SLURM_JOB_ID" not in environ:
        return None
    tasks = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", default=1)
    if tasks == 1:
        return None
    if "SLURM_STEP_NODELIST" not in environ:
        raise ClusterError(
            f"This process is the script of a Slurm job of {tasks} tasks, and none of its tasks. Expected: "
            "`srun tfdist train ...`, which starts one worker a task; or --nproc N for workers on this node alone."
        )
    index = _number(environ, "SLURM_PROCID")
    hosts = expand_hosts(_text(environ, "SLURM_STEP_NODELIST"))
    counts = expand_counts(_text(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    if len(counts) != len(hosts) or sum(counts) != tasks or not 0 <= index < tasks:
        raise ClusterError(
            f"Slurm's variables contradict one another: {tasks} task(s), this one {index}, nodes {_shown(hosts)} with "
            f"{_shown(counts)} task(s). Start with srun, one task a worker, or give --workers and --index."
        )
    distribution = environ.get("SLURM_DISTRIBUTION", "block")
    if not _is_in_blocks(counts, re.split("[:,]", distribution)[0]):
        raise ClusterError(
            "tfdist knows which task runs on which node only for srun's block distribution. Received: "
            f"SLURM_DISTRIBUTION={distribution}. Add `--distribution=block` to srun, or give --workers and --index."
        )
    base = base_port(_number(environ, "SLURM_JOB_ID"), _number(environ, "SLURM_STEP_ID", default=0))
    places = [(node, rank) for node, count in enumerate(counts) for rank in range(count)]
    cluster = Cluster(tuple(Address(hosts[node], base + rank) for node, rank in places))
    machine = tuple(other for other, (node, _) in enumerate(places) if node == places[index][0])
    own_gpus = has_own_gpus(environ, len(machine))
    return Membership(cluster, (index,), machine, own_gpus=own_gpus, source="Slurm")


def _is_in_blocks(counts: list[int], distribution: str) -> bool:
    """Whether the tasks of the first node come first, then those of the second, and so on."""
    if len(counts) == 1 or distribution == "block":
        return True
    # A cyclic distribution is the same when each node has one task.
    return distribution in ("cyclic", "plane") and max(counts) == 1


def base_port(job: int, step: int) -> int:
    """The first port of a job step on each of its nodes, the same on every node, below the ephemeral ports."""
    return FIRST_PORT + (job + _STEP_STRIDE * step) % _BLOCKS * _BLOCK


def _shown(entries: Sequence[object]) -> str:
    return ", ".join(map(str, entries[:_SHOWN])) + (f", ... ({len(entries)})" if len(entries) > _SHOWN else "")


def _text(environ: Mapping[str, str], *names: str) -> str:
    for name in names:
        if environ.get(name):
            return environ[name]
    raise ClusterError(
        f"This looks like a Slurm task (SLURM_PROCID is set), but none of {', '.join(names)} is. "
        "Start with srun, or give --workers and --index."
    )


def _number(environ: Mapping[str, str], *names: str, default: int | None = None) -> int:
    if default is not None and not any(environ.get(name) for name in names):
        return default
    text = _text(environ, *names)
    number = whole_number(text)
    if number is None:
        raise ClusterError(f"Slurm's {' or '.join(names)} must be a number. Received: {text[:200]!r}")
    return number
