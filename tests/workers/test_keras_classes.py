"""Every class that Keras exports gives on several worker processes the numbers of one; see `tests/devices`, too."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.comparison import assert_same
from tests.exactness.keras_classes.table import ROWS
from tests.exactness.results import COUNTS, SIZES, Comparison, recorded
from tests.marks import slow
from tests.workers.cli_process import tfdist

NAMES = list(ROWS)
BOUND = 3000


class Jobs:
    """Trains all rows on a number of workers, once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.outcomes = functools.cache(self._outcomes)

    def _outcomes(self, workers: int, samples: int) -> list[dict[str, Any]]:
        """What each worker of a job wrote, by the rows' names, as far as it came."""
        out = self._folder / f"outcome-{workers}-{samples}"
        options = [] if workers == 1 else ["--nproc", str(workers)]
        done = tfdist("train", *options, "--run-dir", self._folder / f"run-{workers}-{samples}", "-m",
                      "tests.exactness.keras_classes", out, samples, *NAMES, timeout=BOUND)  # fmt: skip
        if done.returncode != 0:
            print(done.stderr)
        files = [Path(f"{out}.{index}") for index in range(workers)]
        return [dict(map(json.loads, file.read_text().splitlines())) if file.exists() else {} for file in files]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(tmp_path_factory.mktemp("classes"))


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("workers", "samples"), [slow(count, samples) for count in COUNTS for samples in SIZES])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, jobs: Jobs) -> None:
    with recorded(Comparison(name, "workers", workers, samples)):
        (one,) = jobs.outcomes(1, samples)
        for index, worker in enumerate(jobs.outcomes(workers, samples)):
            for outcome in (one, worker):
                assert name in outcome, f"worker {index} did not come to it"
                assert "raised" not in outcome[name], outcome[name]["raised"]
            assert_same(one[name], worker[name], f"worker {index}: {name}", ROWS[name].tolerance)
