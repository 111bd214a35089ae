"""Every case of the table, as an unmodified module, on several worker processes gives the numbers of one."""

from __future__ import annotations

import os

import pytest

from tests.exactness.cases import CASES, names_by_default
from tests.exactness.comparison import assert_same_case
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.workers.outcome_jobs import OutcomeJobs

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
JOBS = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(2, 65)]
"""Workers and samples. By default batches that divide, and a last one of which a worker has nothing."""

NAMES = list(CASES) if SLOW else names_by_default("workers")

BOUND = 1500 if SLOW else 500


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("exactness"), "tests.exactness", NAMES, BOUND)


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), JOBS)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, jobs: OutcomeJobs) -> None:
    with recorded(Comparison(name, "workers", workers, samples)):
        (one,) = jobs.outcomes(1, samples)
        assert "raised" not in one[name], one[name]["raised"]
        for index, worker in enumerate(jobs.outcomes(workers, samples)):
            assert name in worker, f"worker {index} did not come to it"
            assert "raised" not in worker[name], worker[name]["raised"]
            assert_same_case(name, one[name], worker[name], f"worker {index}: {name}")
