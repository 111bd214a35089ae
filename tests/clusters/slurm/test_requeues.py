"""Jobs that a real Slurm stops and puts back into its queue (`RequeueExit=143`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.slurm.jobs import script
from tests.clusters.slurm.slurm_cluster import SlurmCluster
from tests.helpers.waiting import until

OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


@pytest.mark.bound(180)
def test_a_job_without_progress_is_requeued_so_often_and_no_more(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Its second start trains five steps, after which the count begins anew."""
    args = ["*@1:step:5", f"0:touch:{tmp_path}/ready", "*:hang"]
    job = slurm.submit(
        script("srun", args=args, run_dir="run", resume="auto", max_requeues=1, grace=2),
        "--requeue", "--nodes=2", "--ntasks-per-node=1", cwd=tmp_path,
    )  # fmt: skip
    for start in range(4):
        until((tmp_path / "ready").exists, otherwise=f"start {start} did not come")
        (tmp_path / "ready").unlink()
        assert slurm.run("scancel", "--signal=TERM", job).returncode == 0
        if start < 3:
            slurm.start_again(job)
    until(lambda: slurm.state(job) in OVER)
    ended = slurm.job(job)
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"]) == ("FAILED", "4:0", "3")
    said = (tmp_path / "slurm.out").read_text()
    advice = "it was requeued once without a step beyond step 5 (--max-requeues 1)"
    # Of both launchers, at the end alone.
    assert said.count(advice) == 2
    assert said.count("Exited with exit code 143") == 6 and said.count("Exited with exit code 4") == 2


@pytest.mark.slow
@pytest.mark.bound(300)
def test_a_time_limit_that_is_too_short_is_no_endless_loop(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Slurm sends SIGTERM half a minute before the limit of a minute is over, and requeues what ends with 143."""
    job = slurm.submit(
        script("srun", args=["*:hang"], run_dir="run", resume="auto", max_requeues=1, grace=2),
        "--requeue", "--nodes=2", "--ntasks-per-node=1", "--time=1", "--signal=TERM@30", cwd=tmp_path,
    )  # fmt: skip
    until(lambda: slurm.job(job)["Restarts"] == "1", timeout=120)
    slurm.start_again(job)
    until(lambda: slurm.state(job) in OVER, timeout=120)
    ended = slurm.job(job)
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"]) == ("FAILED", "4:0", "1")
