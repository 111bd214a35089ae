"""A step that XLA compiles as a whole, with the sums over the workers in it, gives the numbers of one device.

XLA sums over NCCL alone. Where NCCL is emulated TensorFlow translates the step for XLA as it would on a GPU, and its
twin runs over the ring; both are traced by the same code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exactness.cases import CASES, in_turns
from tests.exactness.comparison import assert_same_case
from tests.helpers.cli_process import tfdist
from tests.helpers.marks import named
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.test_sharding import NOT_CUT
from tests.workers.xla_rows import SAID

SCRIPTS = Path(__file__).parent / "scripts"
SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
BOUND = 3000 if SLOW else 400

Job = tuple[tuple[str, ...], int, int]
Jobs = dict[Job, list[str]]

WHOLE = [
    "plain",
    "dropout",
    "sparse_gradients_of_an_embedding",
    "batch_normalization",
    "own_train_step_and_test_step",
    "circle_loss",
    "gradient_accumulation_and_clipping",
]
"""Rows by default whose steps are compiled as a whole: a sum in the middle of the forward pass, slices, rows that are
gathered, a step of one's own, updates in a branch."""

NAMES = list(CASES) if SLOW else WHOLE
"""Of data in other forms the test below has more."""

TWO, THREE = (2, 65), (3, 64)
"""Workers and samples. Of 65 one of two has nothing of the last batch, and of 64 three have unequal parts of each."""

ZERO1, ZERO2 = ("--shard", "zero1"), ("--shard", "zero2")
JOBS: Jobs = {((), *TWO): NAMES, (ZERO2, *TWO): ["plain"]}
"""By options of `tfdist train`, workers and samples: the rows that run with them."""

if SLOW:
    JOBS = {
        **in_turns([((), *TWO), ((), *THREE)], NAMES),
        **in_turns(
            [(mode, *size) for mode in (ZERO1, ZERO2) for size in (TWO, THREE)],
            [name for name in NAMES if name not in NOT_CUT],
        ),
    }


def jobs_in(folder: Path, module: str, names: Sequence[str], emulated: str, options: Sequence[str] = ()) -> OutcomeJobs:
    folder.mkdir()
    return OutcomeJobs(folder, module, names, BOUND, options, {"TFDIST_EMULATE_GPUS": emulated})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    return jobs_in(tmp_path_factory.mktemp("whole") / "alone", "tests.workers.xla_rows", NAMES, "xla")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[Job, OutcomeJobs]:
    folder = tmp_path_factory.mktemp("whole")
    return {
        job: jobs_in(folder / f"job-{number}", "tests.workers.xla_rows", names, "nccl,xla", job[0])
        for number, (job, names) in enumerate(JOBS.items())
    }


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("job", "name"), [(job, name) for job, names in JOBS.items() for name in names], ids=named)
def test_numbers_of_one_device_that_is_compiled(
    job: Job, name: str, alone: OutcomeJobs, together: dict[Job, OutcomeJobs]
) -> None:
    options, workers, samples = job
    (one,) = alone.outcomes(1, samples)
    expected = {part: numbers for part, numbers in one[name].items() if part != SAID}
    if "raised" in expected:
        pytest.skip("XLA cannot compile it on one device")
    for index, worker in enumerate(together[job].outcomes(workers, samples)):
        assert name in worker, f"worker {index} did not come to it"
        assert "raised" not in worker[name], worker[name]["raised"]
        said = " ".join(worker[name].pop(SAID, ()))
        assert name not in WHOLE or (options and name != "plain") or "compiles the step" in said, said
        assert_same_case(name, expected, worker[name], f"worker {index}: {name}")


@pytest.mark.bound(300)
def test_batches_of_all_kinds_of_data(tmp_path: Path) -> None:
    """Those that are known to divide are fetched in the compiled function, the others one by one: of 37 samples in
    batches of 8 the last one of each epoch."""

    def said(workers: int, emulated: str) -> dict[str, Any]:
        run = tmp_path / f"run-{workers}"
        done = tfdist("train", "--nproc", workers, "--run-dir", run, SCRIPTS / "whole_data.py", timeout=200,
                      environ={"TFDIST_EMULATE_GPUS": emulated})  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        lines = (run / "logs" / "worker-0.0.log").read_text().splitlines()
        found: dict[str, Any] = json.loads(next(line for line in lines if line.startswith("{")))
        return found

    one, two = said(1, "xla"), said(2, "nccl,xla")
    for name, found in two.items():
        np.testing.assert_allclose(found["loss"], one[name]["loss"], rtol=2e-6, err_msg=name)
    # With the first batch the step is tried; of data that says nothing every batch is looked at.
    by_name = {name: found["one by one"] for name, found in two.items()}
    of_datasets = {"dataset": 15, "drawn once": 15, "batches of 6": 1}
    assert by_name == {"arrays": 4, "tfdist.data": 4, "batches of 5": 24, **of_datasets}
