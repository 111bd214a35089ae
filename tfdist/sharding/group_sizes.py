"""What `--tensor` and `--context` can be: how many workers share each weight that a layout cuts, or each sequence."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.errors import UsageError

_CUTS: Mapping[str, tuple[str, str]] = {"tensor": ("weights", "weight"), "context": ("sequences", "sequence")}
"""What each option cuts."""


def check_group_sizes(*, tensor: int, context: int, devices: int, which: str) -> None:
    """Refuses values of `--tensor` and `--context` that no workers can have, whatever their number is.

    Args:
        tensor: The value; 1 where no weight is to be cut.
        context: The same of sequences.
        devices: Replicas of a worker.
        which: What they are, such as `--logical-devices 2`.

    Raises:
        UsageError: One is none, both cut, or a worker has several devices.
    """
    for name, size in (("tensor", tensor), ("context", context)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"--{name} expects a number of workers of 1 or more. Received: {size!r}")
        if size > 1 and devices > 1:
            raise UsageError(
                f"--{name} cuts {_CUTS[name][0]} between workers with one device each: --nproc N gives a GPU to each. "
                f"Received: --{name} {size} with {which}"
            )
    if tensor > 1 and context > 1:
        raise UsageError(
            "--tensor has workers share weights, and --context has them share sequences. Expected one of them. "
            f"Received: --tensor {tensor} and --context {context}. Where weights do not fit either, take --context "
            "with --shard zero3."
        )


def check_groups(workers: int, *, tensor: int, context: int) -> None:
    """Refuses `--tensor` or `--context` where the workers of a job do not fill one or several groups of so many.

    Args:
        workers: Those of the job.
        tensor: The workers of a group that shares each weight.
        context: Those of one that shares each sequence.

    Raises:
        UsageError: They do not.
    """
    for name, size in (("tensor", tensor), ("context", context)):
        if workers % size:
            received = "1 worker" if workers == 1 else f"{workers} workers"
            raise UsageError(
                f"--{name} {size} makes groups of {size} workers, which share each {_CUTS[name][1]}, and expects a "
                f"number of workers that it divides. Received: {received}. Start as many: --nproc "
                f"{size * -(-workers // size)}, or --workers."
            )
