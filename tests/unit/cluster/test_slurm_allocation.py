from __future__ import annotations

import pytest

from tfdist.cluster.slurm_allocation import Allocation, slurm_allocation
from tfdist.errors import ClusterError

SALLOC = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_CONF": "/etc/slurm.conf"}, None),
        (SALLOC, Allocation("7", 2)),
        ({**SALLOC, "SLURM_PROCID": "0"}, Allocation("7", 2)),  # a batch script
        ({**SALLOC, "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967290"}, Allocation("7", 2)),  # an interactive step
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "x"}, Allocation("7", 1)),
    ],
)
def test_allocations(environ: dict[str, str], expected: Allocation | None) -> None:
    assert slurm_allocation(environ) == expected


def test_a_task_of_a_step_starts_none() -> None:
    with pytest.raises(ClusterError, match="a task of step 0 of the Slurm job 7"):
        slurm_allocation({**SALLOC, "SLURM_STEP_ID": "0"})
