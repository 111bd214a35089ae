"""Every case of the table, as an unmodified module, on several worker processes gives the numbers of one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.cases import CASES
from tests.exactness.comparing import assert_same
from tests.workers.running import tfdist

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
JOBS = [(2, 64), *([(2, 65), (3, 64), (3, 65)] if SLOW else [])]
BOUND = 500


def outcomes(folder: Path, workers: int, samples: int) -> list[dict[str, Any]]:
    """What each worker of one job wrote."""
    out = folder / f"outcome-{workers}-{samples}"
    options = [] if workers == 1 else ["--nproc", str(workers)]
    done = tfdist("train", *options, "--run-dir", folder / f"run-{workers}-{samples}", "-m", "tests.exactness", out,
                  samples, timeout=BOUND)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(Path(f"{out}.{index}").read_text()) for index in range(workers)]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("one")
    return {samples: outcomes(folder, 1, samples)[0] for samples in sorted({samples for _, samples in JOBS})}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("several")
    return {(workers, samples): outcomes(folder, workers, samples) for workers, samples in JOBS}


@pytest.mark.bound(2 * BOUND * len(JOBS))
@pytest.mark.parametrize(("workers", "samples"), JOBS)
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_one_worker(name: str, workers: int, samples: int, one: Any, several: Any) -> None:
    for index, worker in enumerate(several[workers, samples]):
        assert_same(one[samples][name], worker[name], f"worker {index}: {name}")
