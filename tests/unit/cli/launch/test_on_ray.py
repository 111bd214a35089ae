from __future__ import annotations

import pytest
from click.testing import CliRunner

from tfdist.cli.launch import on_ray
from tfdist.cli.launch.launch_verb import launch
from tfdist.ray.job.ray_job import RayJob


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[RayJob]:
    """The jobs that Ray was given."""
    found: list[RayJob] = []

    def run(job: RayJob) -> int:
        found.append(job)
        return 0

    monkeypatch.setattr(on_ray, "run_ray_job", run)
    return found


def test_the_number_of_workers_is_the_jobs_and_a_scripts_own_stays_its_own(jobs: list[RayJob]) -> None:
    given = ["--on", "ray", "--nproc", "4", "--grace", "5", "train.py", "--nproc=2", "--x"]
    result = CliRunner().invoke(launch, given)
    assert result.exit_code == 0, result.output
    [job] = jobs
    assert job.demand.workers == 4
    assert job.arguments == ("--grace=5.0", "train.py", "--nproc=2", "--x")
