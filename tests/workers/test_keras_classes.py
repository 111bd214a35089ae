"""Every class that Keras exports gives on several worker processes the numbers of one; see `tests/devices`, too."""

from __future__ import annotations

import pytest

from tests.exactness.comparison import assert_same
from tests.exactness.keras_classes.table import ROWS
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.helpers.marks import slow
from tests.workers.outcome_jobs import OutcomeJobs

NAMES = list(ROWS)
BOUND = 3000


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("classes"), "tests.exactness.keras_classes", NAMES, BOUND)


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), [slow(count, samples) for count in COUNTS for samples in SIZES])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, jobs: OutcomeJobs) -> None:
    with recorded(Comparison(name, "workers", workers, samples)):
        (one,) = jobs.outcomes(1, samples)
        for index, worker in enumerate(jobs.outcomes(workers, samples)):
            for outcome in (one, worker):
                assert name in outcome, f"worker {index} did not come to it"
                assert "raised" not in outcome[name], outcome[name]["raised"]
            assert_same(one[name], worker[name], f"worker {index}: {name}", ROWS[name].tolerance)
