from __future__ import annotations

import pytest

from tfdist.cluster.slurm import has_own_gpus
from tfdist.errors import ClusterError


def environ(visible: str | None, of_node: int | None, bind: str = "") -> dict[str, str]:
    said = {
        "CUDA_VISIBLE_DEVICES": visible,
        "SLURM_GPUS_ON_NODE": None if of_node is None else str(of_node),
        "SLURMD_TRES_BIND": bind or None,
    }
    return {name: value for name, value in said.items() if value is not None}


@pytest.mark.parametrize(
    ("variables", "tasks"),
    [
        (environ("0,1", 2), 2),  # srun --gres=gpu:2 --ntasks-per-node=2
        (environ("0,1", 2), 4),  # too few, which the devices say when they are dealt
        (environ("0", 1), 2),
        (environ("0", 2), 1),  # alone on its node
        (environ(None, 2, "gpu:none"), 2),
        (environ("", 2), 2),  # hidden, to train on the CPU
        (environ("-1", 2), 2),
        (environ(None, None), 2),
        (environ("0", None), 2),
        (environ("0,1", None, "gpu:per_task:2"), 2),
    ],
)
def test_gpus_that_all_tasks_see_are_shared(variables: dict[str, str], tasks: int) -> None:
    assert not has_own_gpus(variables, tasks)


@pytest.mark.parametrize(
    ("variables", "tasks"),
    [
        (environ("0", 2, "gpu:per_task:1"), 2),  # srun --gpus-per-task=1 --ntasks-per-node=2
        (environ("1", 2, "gpu:single:1"), 2),
        (environ("1", 2, "gpu:map_gpu:0,1"), 2),
        (environ("1", 4, "gpu:map_gpu:0*1,1"), 2),
        (environ("2,3", 4, "gpu:mask_gpu:0x3,0xc"), 2),
        (environ("2,3", 4, "gpu:per_task:2"), 2),
        (environ("0", 2), 2),  # CUDA_VISIBLE_DEVICES=$SLURM_LOCALID, in a script of the user's
        (environ("GPU-8a1", 2), 2),
        (environ("1", 8, "gpu:closest"), 2),
        (environ("1", 8, "gpu:nonsense:\x00"), 2),
    ],
)
def test_gpus_that_slurm_has_dealt_are_the_tasks_own(variables: dict[str, str], tasks: int) -> None:
    assert has_own_gpus(variables, tasks)


@pytest.mark.parametrize(
    ("variables", "tasks"),
    [
        (environ("0", 2, "gpu:single:2"), 4),
        (environ("0", 2, "gpu:single:2"), 2),
        (environ("1", 2, "gpu:map_gpu:1,1"), 2),
        (environ("1", 4, "gpu:map_gpu:1*2,0"), 2),
        (environ("1", 4, "gpu:map_gpu:1"), 2),
        (environ("0,1", 4, "gpu:mask_gpu:0x3,0x6"), 2),
        (environ("0,1,2", 4), 2),
    ],
)
def test_gpus_that_two_tasks_see_are_refused(variables: dict[str, str], tasks: int) -> None:
    with pytest.raises(ClusterError, match=f"several of the {tasks} tasks .*--gpus-per-task"):
        has_own_gpus(variables, tasks)
