"""Slurm's GPUs: whether the tasks of a node share those that they see, or each sees its own.

`srun --gres=gpu:2` shows all tasks of a node the same GPUs, of which tfdist deals every task its part. With
`--gpus-per-task` and most of `--gpu-bind`, Slurm has dealt them, and each task uses what it sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfdist.cluster.cluster_spec import whole_number
from tfdist.errors import ClusterError

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_OF_NODE = "SLURM_GPUS_ON_NODE"
_BINDINGS = ("SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND")
_MOST_LETTERS = 10_000
_REMEDY = (
    "Every worker needs GPUs that no other one uses. Give srun --gpus-per-task, or leave out --gpu-bind: then tfdist "
    "deals the GPUs of a node to its tasks."
)


def has_own_gpus(environ: Mapping[str, str], tasks: int) -> bool:
    """Whether Slurm has given this task GPUs that no other task of its node sees.

    Args:
        environ: Of the task.
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
    """Whether a `--gpu-bind` gives two of a node's tasks the same GPU."""
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
