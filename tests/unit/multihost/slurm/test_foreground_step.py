from __future__ import annotations

import pytest

from tfdist.multihost.slurm.foreground_step import step_command, with_cores


def test_a_step_gets_the_environment_whatever_the_allocation_was_made_with() -> None:
    """--export=NONE there sets SLURM_EXPORT_ENV, and srun would leave the secret behind."""
    command = step_command(arguments=["train.py"], python="/p", nodes=2, tasks_per_node=1, gpus_per_node=None)
    assert command[0] == "srun" and "--export=ALL" in command
    assert command[-5:] == ("/p", "-m", "tfdist", "train", "train.py")


@pytest.mark.parametrize(
    ("argument", "is_bounded"),
    [("--copy-to=s3://a/b", False), ("--min-workers", False), ("--max-restarts=1", True)],
)
def test_the_others_are_waited_for_so_long_unless_they_may_go_on(argument: str, is_bounded: bool) -> None:
    arguments = [argument, "train.py"]
    command = step_command(arguments=arguments, python="/p", nodes=2, tasks_per_node=1, gpus_per_node=None)
    assert ("--wait=210" in command) == is_bounded


@pytest.mark.parametrize(
    ("environ", "cores"),
    [
        ({"SLURM_CPUS_PER_TASK": "8"}, "8"),
        ({"SLURM_CPUS_PER_TASK": "8", "SRUN_CPUS_PER_TASK": "4"}, "4"),
        ({"A": "1"}, None),
    ],
)
def test_a_step_has_the_cores_of_the_allocation(environ: dict[str, str], cores: str | None) -> None:
    made = with_cores(environ)
    assert made.get("SRUN_CPUS_PER_TASK") == cores
    assert made | environ == made
