"""What `--tensor` can be: how many workers share each weight that a layout cuts."""

from __future__ import annotations

from tfdist.errors import UsageError


def check_tensor(tensor: int, devices: int, which: str) -> None:
    """Refuses a value of `--tensor` that no workers can have, whatever their number is.

    Args:
        tensor: The value; 1 where no weight is to be cut.
        devices: Replicas of a worker.
        which: What they are, such as `--logical-devices 2`.

    Raises:
        UsageError: It is none, or a worker has several devices.
    """
    if isinstance(tensor, bool) or not isinstance(tensor, int) or tensor < 1:
        raise UsageError(f"--tensor expects a number of workers of 1 or more. Received: {tensor!r}")
    if tensor > 1 and devices > 1:
        raise UsageError(
            "--tensor cuts weights between workers with one device each: --nproc N gives a GPU to each. Received: "
            f"--tensor {tensor} with {which}"
        )


def check_workers(tensor: int, workers: int) -> None:
    """Refuses `--tensor` where the workers of a job do not fill one or several groups of so many.

    Args:
        tensor: The workers of a group, which share each weight.
        workers: Those of the job.

    Raises:
        UsageError: They do not.
    """
    if workers % tensor:
        received = "1 worker" if workers == 1 else f"{workers} workers"
        raise UsageError(
            f"--tensor {tensor} makes groups of {tensor} workers, which share each weight, and expects a number of "
            f"workers that it divides. Received: {received}. Start as many: --nproc {tensor * -(-workers // tensor)}, "
            "or --workers."
        )
