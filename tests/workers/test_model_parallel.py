"""`keras.distribution.ModelParallel`: the numbers of one device, with a slice of each weight on each worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow

SCRIPT = Path(__file__).with_name("laid_out_training.py")
BOUND = 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains the script on workers of a mesh; returns what it has printed."""

    def train(workers: int, groups: int, optimizer: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        done = tfdist(
            *("train", "--nproc", workers, "--run-dir", place / "run", SCRIPT, groups, optimizer, place / "model"),
            timeout=BOUND,
            environ=environ,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        saved = keras.models.load_model(place / "model.keras")
        said["saved"] = float(sum(np.abs(weight).sum() for weight in saved.get_weights()))
        return said

    return train


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("workers", "groups", "optimizer"),
    [
        (4, 2, "adam"),
        slow(2, 1, "adam"),
        slow(2, 1, "sgd"),
        slow(2, 1, "averages"),
        slow(2, 1, "muon"),
        slow(3, 1, "sgd"),
        slow(2, 2, "adam"),
        slow(4, 2, "sgd"),
        slow(4, 2, "averages"),
        slow(4, 2, "muon"),
        slow(4, 1, "averages"),
    ],
)
def test_numbers_of_one_device(
    workers: int, groups: int, optimizer: str, trained: Callable[..., dict[str, Any]]
) -> None:
    # One of the rows takes the paths of NCCL.
    environ = {"TFDIST_EMULATE_GPUS": "nccl"} if optimizer == "adam" else None
    one, several = trained(1, 1, optimizer), trained(workers, groups, optimizer, environ)
    stored, alone = several.pop("stored"), one.pop("stored")
    paths = keras.tree.flatten_with_path(one)
    for (path, expected), (_, found) in zip(paths, keras.tree.flatten_with_path(several), strict=True):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-9, err_msg=str(path))
    shares = workers // groups
    kernel = next(path for path in stored if path.endswith("dense/kernel"))
    assert stored["embedding/embeddings"] == [50 // shares, 12 // groups] and stored[kernel] == [5, 33 // shares]
    assert stored["places/embeddings"] == [6 // groups, 12 // shares]
    whole = [path for path in stored if "normalization" in path]
    assert whole and all(stored[path] == alone[path] for path in whole)


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND + 60)
def test_all_workers_skip_a_step_in_which_gradients_of_some_overflow(tmp_path: Path) -> None:
    found = []
    for workers in (1, 4):
        script = SCRIPT.with_name("overflowing_training.py")
        done = tfdist("train", "--nproc", workers, "--run-dir", tmp_path / str(workers), script, timeout=BOUND)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert found[0] == found[1] and found[0]["steps"] == 0 and found[0]["scale"] < 1 << 15
