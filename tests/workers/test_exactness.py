"""Every case of the table, as an unmodified module, on several worker processes gives the numbers of one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.exactness.cases import CASES, names_by_default
from tests.exactness.comparison import assert_same_case
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.workers.outcome_jobs import OutcomeJobs

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
JOBS = [(count, samples) for count in COUNTS for samples in SIZES] if SLOW else [(2, 65)]
"""Workers and samples. By default batches that divide, and a last one of which a worker has nothing."""

# The last one logs what it computes from results of metrics, of which each worker has a part while a step is checked.
NAMES = list(CASES) if SLOW else [*names_by_default("workers"), "logs_of_single_batches"]

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


@pytest.mark.bound(BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), JOBS)
def test_first_steps_are_shared_out(workers: int, samples: int, jobs: OutcomeJobs) -> None:
    """A check that is wrong makes steps run whole: as exact, and as slow as one device."""
    jobs.outcomes(workers, samples)
    log = jobs.logs_of_last(workers, samples)
    assert "checked on its first batch, it is what one device computes" in log
    assert "in parts differed" not in log


@pytest.mark.slow
@pytest.mark.bound(900)
def test_numbers_of_one_worker_on_eleven(tmp_path: Path) -> None:
    """TensorFlow knows workers by their names, of which 10 comes before 2."""
    names = ["plain", "circle_loss", "layer_that_subtracts_the_mean", "metrics_that_are_no_sums"]
    jobs = OutcomeJobs(tmp_path, "tests.exactness", names, 600)
    (one,) = jobs.outcomes(1, 65)
    for index, worker in enumerate(jobs.outcomes(11, 65)):
        for name in names:
            assert "raised" not in worker[name], worker[name]["raised"]
            assert_same_case(name, one[name], worker[name], f"worker {index}: {name}")
