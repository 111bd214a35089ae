"""Every case of the table, as an unmodified module, on several worker processes gives the numbers of one."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.cases import CASES, names_by_default
from tests.exactness.comparison import assert_same_case
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.workers.cli_process import tfdist

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
JOBS = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(2, 65)]
"""Workers and samples. By default batches that divide, and a last one of which a worker has nothing."""

NAMES = list(CASES) if SLOW else names_by_default("workers")

BOUND = 1500 if SLOW else 500


class Jobs:
    """Runs all cases on a number of workers, once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.outcomes = functools.cache(self._outcomes)

    def _outcomes(self, workers: int, samples: int) -> list[dict[str, Any]]:
        """What each worker of a job wrote: the outcomes by the cases' names, as far as it came."""
        out = self._folder / f"outcome-{workers}-{samples}"
        options = [] if workers == 1 else ["--nproc", str(workers)]
        done = tfdist("train", *options, "--run-dir", self._folder / f"run-{workers}-{samples}", "-m",
                      "tests.exactness", out, samples, *NAMES, timeout=BOUND)  # fmt: skip
        if done.returncode != 0:
            print(done.stderr)
        files = [Path(f"{out}.{index}") for index in range(workers)]
        return [dict(map(json.loads, file.read_text().splitlines())) if file.exists() else {} for file in files]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(tmp_path_factory.mktemp("exactness"))


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), JOBS)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, jobs: Jobs) -> None:
    with recorded(Comparison(name, "workers", workers, samples)):
        (one,) = jobs.outcomes(1, samples)
        assert "raised" not in one[name], one[name]["raised"]
        for index, worker in enumerate(jobs.outcomes(workers, samples)):
            assert name in worker, f"worker {index} did not come to it"
            assert "raised" not in worker[name], worker[name]["raised"]
            assert_same_case(name, one[name], worker[name], f"worker {index}: {name}")
