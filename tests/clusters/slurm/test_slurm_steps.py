"""Job steps of a real Slurm, with launchers that start stand-in workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.slurm.jobs import stand_ins
from tests.clusters.slurm.slurm_cluster import SlurmCluster


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ("-N2 --ntasks-per-node=2 --gres=gpu:2", [f"worker {i} sees 0,1, shared" for i in range(4)]),
        ("-N2 --ntasks-per-node=2 --gpus-per-task=1", [f"worker {i} sees {i % 2}, its own" for i in range(4)]),
        ("-N1 -n2 --gpus=2 --gpu-bind=map_gpu:1,0", ["worker 0 sees 1, its own", "worker 1 sees 0, its own"]),
        ("-N2 --ntasks-per-node=1 --gpus-per-task=2", ["worker 0 sees 0,1, shared", "worker 1 sees 0,1, shared"]),
        ("-N1 -n2", ["worker 0 sees None, shared", "worker 1 sees None, shared"]),
    ],
)
def test_gpus_of_tasks(slurm: SlurmCluster, tmp_path: Path, layout: str, says: list[str]) -> None:
    """Shared ones are dealt by the tasks' places on their node; those that Slurm has dealt are left as they are."""
    ended = slurm.run("srun", *layout.split(), *stand_ins(args=["*:gpus"], show="all"), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert sorted(line for line in ended.stdout.splitlines() if " sees " in line) == says


def test_a_gpu_that_slurm_gives_to_two_tasks_is_refused(slurm: SlurmCluster, tmp_path: Path) -> None:
    layout = "-N1 -n2 --gpus=2 --gpu-bind=map_gpu:1,1"
    ended = slurm.run("srun", *layout.split(), *stand_ins(args=["*:gpus"]), cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "this task sees CUDA_VISIBLE_DEVICES=1, bound by gpu:map_gpu:1,1" in ended.stderr


def test_parts_of_a_heterogeneous_step_are_one_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Two workers on one node and one on another."""
    command = stand_ins(args=["*:listen", "*:assignment"], show="all", run_dir=str(tmp_path / "run"))
    block = "--distribution=block"
    ended = slurm.run("srun", "-N1", "-n2", block, *command, ":", "-N1", "-n1", block, *command, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    ranks = sorted(line.rpartition(" ")[2] for line in ended.stdout.splitlines() if line.startswith("seed="))
    assert ranks == ["rank=0", "rank=0", "rank=1"]
    assert len(list((tmp_path / "run" / "logs").iterdir())) == 3
