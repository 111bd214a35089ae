"""Workers that exchange by the paths of NCCL, over TensorFlow's ring on CPUs, have the numbers of one device.

Without them a path that GPUs alone take would run for the first time on GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.exactness.cases import SECTIONS, cases_of, in_turns
from tests.workers import test_sharding
from tests.workers.nccl_rows import BY_DEFAULT, BY_SECTION, EMBEDDINGS, RECOMPUTED, all_names, assert_same_row
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.worker_scripts import EMULATED

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
BOUND = 3000 if SLOW else 300
SAMPLES = {2: 65, 3: 64, 4: 65}
"""By workers: of 65 one of two has nothing of the last batch, and of 64 three have unequal parts of each."""

UNCHECKED = ("--check", "off")


@dataclass(frozen=True)
class Job:
    """A way to run rows together.

    Attributes:
        options: Of `tfdist train`.
        workers: On how many.
    """

    options: tuple[str, ...]
    workers: int = 2

    def __str__(self) -> str:
        return " ".join([*self.options, f"on {self.workers}"])


SOME = ("plain", "gradient_accumulation_and_averages", "sparse_gradients_by_adagrad", "mixed_float16_and_accumulation",
        "mixed_bfloat16", "muon", "clipnorm", "recurrent_layers")  # fmt: skip
ALL = tuple(all_names()) if SLOW else ()
OF_TABLE = tuple(name for name in ALL if not name.startswith((EMBEDDINGS, RECOMPUTED)))
CUT = tuple(name for name in ALL if name not in test_sharding.NOT_CUT)

JOBS: dict[Job, Sequence[str]] = {
    Job(("--shard", "zero2", *UNCHECKED)): BY_DEFAULT,
    # Checked, by the same paths.
    Job(("--shard", "zero3", "--offload", "optimizer", "--shard-embeddings", "20")): ("plain", EMBEDDINGS + "adagrad"),
}
"""The rows of each."""

if SLOW:
    modes = ("zero1", "zero2", "zero3")
    JOBS = {
        **in_turns([Job((), workers) for workers in (2, 3)], OF_TABLE),
        # Unchecked, as the jobs of some rows are checked, and to check a step takes as long as all else.
        **in_turns([Job(("--shard", mode, *UNCHECKED), count) for mode in modes for count in (2, 3)], CUT),
        **in_turns([Job(("--shard-embeddings", "20", *UNCHECKED), workers) for workers in (2, 3)], ALL),
        **{Job(("--shard", mode, "--offload", "optimizer")): SOME for mode in modes},
        **{Job(("--shard", mode, "--shard-over", "2"), 4): SOME for mode in modes},
    }
COMPARED = [(job, name) for job, names in JOBS.items() for name in names]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> OutcomeJobs:
    names = list(dict.fromkeys(name for _, name in COMPARED))
    return OutcomeJobs(tmp_path_factory.mktemp("alone"), "tests.workers.nccl_rows", names, BOUND)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[Job, OutcomeJobs]:
    found = {}
    for number, (job, names) in enumerate(JOBS.items()):
        cuts = "tests.helpers.cut_weights " if "zero3" in job.options else ""
        folder = tmp_path_factory.mktemp(f"job-{number}")
        found[job] = OutcomeJobs(folder, f"{cuts}tests.workers.nccl_rows", names, BOUND, job.options, EMULATED)
    return found


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("job", "name"), COMPARED, ids=str)
def test_numbers_of_one_worker(job: Job, name: str, alone: OutcomeJobs, jobs: dict[Job, OutcomeJobs]) -> None:
    samples = SAMPLES[job.workers]
    (one,) = alone.outcomes(1, samples)
    assert "raised" not in one[name], one[name]["raised"]
    for index, worker in enumerate(jobs[job].outcomes(job.workers, samples)):
        assert name in worker, f"worker {index} did not come to it"
        if "zero3" not in job.options or not test_sharding.is_refused(worker[name]):
            assert "raised" not in worker[name], worker[name]["raised"]
            assert_same_row(name, one[name], worker[name], f"worker {index}: {name}")


@pytest.mark.slow
@pytest.mark.bound(900)
def test_a_killed_run_ends_as_the_one_that_was_not_and_goes_on_on_another_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in EMULATED.items():
        monkeypatch.setenv(name, value)
    test_sharding.test_a_killed_run_with_cut_weights_ends_as_the_one_that_was_not_and_goes_on_in_any_mode(tmp_path)


def test_each_section_of_the_table_has_a_row() -> None:
    assert {section: name for section, name in BY_SECTION.items() if name in [c.name for c in cases_of(section)]} == (
        BY_SECTION
    )
    assert list(BY_SECTION) == list(SECTIONS)
