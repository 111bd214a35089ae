"""`tfdist train --nproc N --run-dir DIR SCRIPT` with a seed of the test's choice, as a process of its own."""

from __future__ import annotations

import sys

from tfdist.cluster import discover
from tfdist.launch.job import JobSpec, run_job

if __name__ == "__main__":
    seed, workers, run_dir, script = sys.argv[1:]
    sys.exit(run_job(JobSpec(discover(None, None, int(workers)), "script", script, run_dir=run_dir, seed=int(seed))))
