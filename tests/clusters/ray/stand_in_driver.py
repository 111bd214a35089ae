"""`tfdist launch --on ray` with stand-in workers: the arguments of the verb."""

from __future__ import annotations

import dataclasses
import sys

from tfdist.cli.launch import on_ray
from tfdist.cli.main import main
from tfdist.ray.job.ray_job import RayJob, run_ray_job


def run_with_stand_ins(job: RayJob) -> int:
    return run_ray_job(dataclasses.replace(job, launcher_module="tests.clusters.ray.stand_in_launcher"))


if __name__ == "__main__":
    on_ray.run_ray_job = run_with_stand_ins
    sys.exit(main(["launch", "--on", "ray", *sys.argv[1:]], prog_name="tfdist"))
