"""Workers whose activations are computed again have the numbers of one device, in every mode of `--shard`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.exactness import recomputed_features
from tests.exactness.comparison import assert_same
from tests.exactness.recomputed_cases import CASES
from tests.workers.outcome_jobs import OutcomeJobs
from tests.workers.test_sharding import check_that_a_killed_run_ends_as_the_one_that_was_not

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
NAMES = [name for name in CASES if name != "xla"] if SLOW else ["list_of_layers"]
BOUND = 900 if SLOW else 200


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("mode", "workers"), [("zero3", 2), ("none", 2), ("zero2", 2), ("zero3", 3)])
def test_numbers_of_one_device(tmp_path: Path, mode: str, workers: int) -> None:
    """XLA, which `zero3` refuses, is compared on devices."""
    module = "tests.exactness.recomputed_cases"
    folders = [tmp_path / "one", tmp_path / "several"]
    for folder in folders:
        folder.mkdir()
    (one,) = OutcomeJobs(folders[0], module, NAMES, BOUND).outcomes(1, 65)
    cut = f"tests.helpers.cut_weights {module}" if mode == "zero3" else module
    said = OutcomeJobs(folders[1], cut, NAMES, BOUND, ["--shard", mode]).outcomes(workers, 65)
    for index, worker in enumerate(said):
        for name in NAMES:
            assert name in worker, f"worker {index} did not come to it"
            assert "raised" not in worker[name], worker[name]["raised"]
            precision = CASES[name].precision
            for part, numbers in one[name].items():
                relative = precision.weights if part == "weights" else precision.losses
                assert_same(numbers, worker[name][part], f"worker {index}: {name}.{part}", relative)


WAYS = [
    ("zero3", 2, ("--communication", "ring")),
    ("zero3", 3, ()),
    ("zero3", 4, ("--shard-over", "2")),
    ("zero3", 2, ("--offload", "optimizer")),
    ("zero2", 4, ("--shard-over", "2", "--communication", "ring", "--offload", "optimizer")),
]


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(("mode", "workers", "options"), WAYS)
def test_numbers_of_activations_that_one_device_keeps(
    tmp_path: Path, mode: str, workers: int, options: tuple[str, ...]
) -> None:
    module = "tests.exactness.recomputed_features"
    cut = f"tests.helpers.cut_weights {module}" if mode == "zero3" else module
    folders = [tmp_path / "one", tmp_path / "several"]
    for folder in folders:
        folder.mkdir()
    names = list(recomputed_features.CASES)
    (one,) = OutcomeJobs(folders[0], f"{module} kept", names, BOUND).outcomes(1, 65)
    said = OutcomeJobs(folders[1], cut, names, BOUND, ["--shard", mode, *options]).outcomes(workers, 65)
    for index, worker in enumerate(said):
        for name in names:
            assert name in worker, f"worker {index} did not come to it"
            assert "raised" not in worker[name], worker[name]["raised"]
            precision = recomputed_features.CASES[name].precision
            for part, numbers in one[name].items():
                relative = precision.weights if part == "weights" else precision.losses
                assert_same(numbers, worker[name][part], f"worker {index}: {name}.{part}", relative)


@pytest.mark.slow
@pytest.mark.bound(600)
@pytest.mark.parametrize(("mode", "workers", "options"), WAYS[:4])
def test_a_killed_run_ends_as_the_one_that_was_not(
    tmp_path: Path, mode: str, workers: int, options: tuple[str, ...]
) -> None:
    build = {"build": "tests.helpers.resumable_model.model", "args": {"cut": True, "recomputed": True}}
    check_that_a_killed_run_ends_as_the_one_that_was_not(tmp_path, {"model": build}, mode, workers, options)
