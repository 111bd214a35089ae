"""Slurm's allocation: nodes that this process may use by srun, as in the shell of `salloc` or in a batch script."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import whole_number
from tfdist.errors import ClusterError

_FIRST_STEP_OF_SLURMS_OWN = 0xFFFF_FFF0
"""Numbers from here on are no tasks of a user's: the batch script, and the shell of an interactive step."""


@dataclass(frozen=True)
class Allocation:
    """An allocation.

    Attributes:
        job: The number of its job.
        nodes: How many nodes it has.
    """

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
