"""Slurm: the cluster from the variables that srun sets for each task (https://slurm.schedmd.com/srun.html).

Each task runs its own `tfdist train` and starts its own worker. TensorFlow's own resolver is not used: it fails on
nodes without GPUs, and sorts host names as text, so that node10 comes before node2. The judge of short lists of names
and of their order is `scontrol show hostnames`. An allocation is that of a shell of `salloc`, or of a batch script.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import END_PORT, FIRST_PORT
from tfdist.errors import ClusterError

_MOST_TASKS = 1 << 16
"""Of one job step; text of a few letters could stand for more than a machine's memory holds."""

_LONGEST_NAME = 253
"""Of a host name (RFC 1035)."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_OF_NODE = "SLURM_GPUS_ON_NODE"
_BINDINGS = ("SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND")
_MOST_LETTERS = 10_000
_REMEDY = (
    "Every worker needs GPUs that no other one uses. Give srun --gpus-per-task, or leave out --gpu-bind: then tfdist "
    "deals the GPUs of a node to its tasks."
)
# Ports of one job step: other jobs on the same node, which have nearby ids, get other blocks.
_BLOCK = 64
_BLOCKS = (END_PORT - FIRST_PORT) // _BLOCK
_STEP_STRIDE = 31
_SHOWN = 8
_FIRST_STEP_OF_SLURMS_OWN = 0xFFFF_FFF0
"""Numbers from here on are no tasks of a user's: the batch script, and the shell of an interactive step."""


def expand_counts(text: str) -> list[int]:
    """`2(x3),1` -> [2, 2, 2, 1].

    Raises:
        ClusterError: The text is not of that form.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part)
        if match is None or len(counts) + int(match[2] or 1) > _MOST_TASKS:
            raise ClusterError(
                f"Slurm's tasks per node must look like 2(x3),1, for {_MOST_TASKS:,} nodes at most. "
                f"Received: {text[:200]!r}"
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def expand_hosts(text: str) -> list[str]:
    """`gpu[8-10,12],login` -> gpu8, gpu9, gpu10, gpu12, login: the order in which Slurm numbers the tasks.

    Raises:
        ClusterError: The text is not of that form.
    """
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not text or ",".join(parts) != text:
        raise _bad_hosts(text)
    hosts: list[str] = []
    for part in parts:
        hosts += _expand_part(part, text, _MOST_TASKS - len(hosts))
    return hosts


def _expand_part(part: str, text: str, most: int) -> list[str]:
    """The names of one part of the list `text`, at most so many."""
    pieces = re.findall(r"\[[^\[\]]*\]|[^\[\]]+", part)
    choices: list[list[str]] = []
    for piece in pieces:
        choices.append(_expand_ranges(piece[1:-1], text, most) if piece.startswith("[") else [piece])
        if math.prod(map(len, choices)) > most or sum(len(each[-1]) for each in choices) > _LONGEST_NAME:
            raise _bad_hosts(text)
    # Slurm's order: the last brackets change first, then the first ones, and those before the last ones least.
    brackets = [place for place, piece in enumerate(pieces) if piece.startswith("[")]
    order = [*reversed(brackets[:-1]), *brackets[-1:]]
    return [
        "".join(dict(zip(order, chosen, strict=True)).get(place, piece) for place, piece in enumerate(pieces))
        for chosen in itertools.product(*(choices[place] for place in order))
    ]


def _expand_ranges(ranges: str, text: str, most: int) -> list[str]:
    numbers: list[str] = []
    for piece in ranges.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", piece)
        first, last = ("1", "0") if match is None else (match[1], match[2] or match[1])
        if not 0 <= int(last) - int(first) < most - len(numbers):
            raise _bad_hosts(text)
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _bad_hosts(text: str) -> ClusterError:
    return ClusterError(
        f"Slurm's list of nodes must look like gpu[8-10,12],login, with {_MOST_TASKS:,} names at most. "
        f"Received: {text[:200]!r}"
    )


def has_own_gpus(environ: Mapping[str, str], tasks: int) -> bool:
    """Returns whether Slurm has given this task GPUs that no other task of its node sees.

    Args:
        tasks: The tasks of this step on its node.

    Raises:
        ClusterError: Slurm has given several tasks the same GPU.
    """
    visible, of_node = environ.get(_VISIBLE, ""), whole_number(environ.get(_OF_NODE, ""))
    seen = [] if visible.strip() in ("", "-1") else visible[:_MOST_LETTERS].split(",")
    if tasks < 2 or not seen or of_node is None or len(seen) >= of_node:
        return False
    binding = next((environ[name] for name in _BINDINGS if environ.get(name)), "")
    if len(seen) * tasks > of_node or _repeats(binding[:_MOST_LETTERS], tasks):
        raise ClusterError(
            f"Slurm shows several of the {tasks} tasks on this node the same GPU: it has {of_node}, and this task sees "
            f"{_VISIBLE}={visible[:100]}" + (f", bound by {binding[:100]}" if binding else "") + f". {_REMEDY}"
        )
    return True


def _repeats(binding: str, tasks: int) -> bool:
    """Returns whether a `--gpu-bind` gives two of a node's tasks the same GPU."""
    kind, _, value = binding.removeprefix("gpu:").removeprefix("verbose,").partition(":")
    if kind == "single":
        return (whole_number(value) or 1) > 1
    if kind not in ("map_gpu", "mask_gpu"):
        return False
    # Where there are more tasks than entries, Slurm begins with the first one again.
    masks = [_mask(entry, kind) for entry in _repeated(value, tasks)]
    taken = [masks[task % len(masks)] for task in range(tasks)] if masks else []
    return any(one & other for place, one in enumerate(taken) for other in taken[:place])


def _repeated(value: str, most: int) -> list[str]:
    """`0*2,1` -> 0, 0, 1; at most so many."""
    entries: list[str] = []
    for part in value.split(","):
        match = re.fullmatch(r"(0x[0-9a-fA-F]{1,64}|[0-9]{1,4})(?:\*([0-9]{1,4}))?", part.strip())
        if match is not None:
            entries += [match[1]] * min(int(match[2] or 1), most)
    return entries[:most]


def _mask(entry: str, kind: str) -> int:
    """The GPUs of one entry, a bit each."""
    number = int(entry, 16 if entry.startswith("0x") else 10)
    return number if kind == "mask_gpu" else 1 << number


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
    """Returns whether the tasks of the first node come first, then those of the second, and so on."""
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


@dataclass(frozen=True)
class Allocation:
    """An allocation."""

    job: str
    nodes: int


def slurm_allocation(environ: Mapping[str, str] | None = None) -> Allocation | None:
    """The allocation that this process is in; None outside of one.

    Args:
        environ: Slurm's variables; None for this process's environment.

    Raises:
        ClusterError: This process is one of the tasks of a step.
    """
    environ = os.environ if environ is None else environ
    job = environ.get("SLURM_JOB_ID", "")
    if not job:
        return None
    step = whole_number(environ.get("SLURM_STEP_ID", ""))
    if step is not None and step < _FIRST_STEP_OF_SLURMS_OWN:
        raise ClusterError(
            f"This process is a task of step {step} of the Slurm job {job[:40]}, and tasks start no steps. Expected "
            "`srun tfdist train ...` for a worker in each task, or `tfdist launch` outside of srun."
        )
    return Allocation(job, whole_number(environ.get("SLURM_JOB_NUM_NODES", "")) or 1)
