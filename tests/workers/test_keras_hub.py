"""Transformers of KerasHub with dropout give on several workers the numbers of one."""

from __future__ import annotations

import pytest

from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.workers.outcome_jobs import OutcomeJobs

pytest.importorskip("keras_hub", reason="KerasHub is not installed; pip install keras-hub")

from tests.exactness.keras_hub_cases import HUB_CASES  # noqa: E402 - it imports KerasHub

BOUND = 300


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return OutcomeJobs(tmp_path_factory.mktemp("hub"), "tests.exactness.keras_hub_cases", list(HUB_CASES), BOUND)


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), [slow(2, 64), (2, 65), slow(3, 64), slow(3, 65)])
@pytest.mark.parametrize("name", HUB_CASES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, jobs: OutcomeJobs) -> None:
    (one,) = jobs.outcomes(1, samples)
    for index, worker in enumerate(jobs.outcomes(workers, samples)):
        for outcome in (one, worker):
            assert name in outcome, f"worker {index} did not come to it"
            assert "raised" not in outcome[name], outcome[name]["raised"]
        assert_same(one[name], worker[name], f"worker {index}: {name}")
