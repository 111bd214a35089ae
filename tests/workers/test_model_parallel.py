"""`keras.distribution.ModelParallel`: the numbers of one device, with a slice of each weight on each worker."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
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
    """Trains the script on workers of a mesh, once in each way; returns what it has printed."""

    @functools.cache
    def train(workers: int, groups: int, optimizer: str, options: str = "", carrier: str = "") -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        run = ("train", "--nproc", workers, *options.split(), "--run-dir", place / "run")
        environ = {"TFDIST_EMULATE_GPUS": carrier} if carrier else None
        done = tfdist(*run, SCRIPT, groups, optimizer, place / "model", timeout=BOUND, environ=environ)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        saved = keras.models.load_model(place / "model.keras")
        said["saved"] = float(sum(np.abs(weight).sum() for weight in saved.get_weights()))
        return said

    return train


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("workers", "groups", "optimizer", "options"),
    [
        # What were wrong in a step would be found before it, and mended by a slower one.
        (4, 2, "adam", "--shard zero2 --shard-embeddings 40 --check off"),
        slow(4, 2, "adam", "--shard-embeddings 40"),
        slow(4, 2, "adam", "--shard zero2 --check off"),
        slow(2, 1, "adam", ""),
        slow(2, 1, "sgd", ""),
        slow(2, 1, "averages", ""),
        slow(2, 1, "muon", ""),
        slow(3, 1, "sgd", ""),
        slow(2, 2, "adam", ""),
        slow(4, 2, "sgd", ""),
        slow(4, 2, "averages", ""),
        slow(4, 2, "muon", ""),
        slow(4, 1, "averages", ""),
        slow(4, 2, "sgd", "--shard zero1"),
        slow(4, 2, "averages", "--shard zero2"),
        slow(4, 2, "muon", "--shard zero2"),
        slow(4, 2, "adam", "--shard zero3"),
        slow(4, 2, "sgd", "--shard zero3 --shard-over 2"),
        slow(2, 1, "sgd", "--shard zero2"),
        slow(4, 2, "sgd", "--shard zero2 --communication ring"),
        slow(4, 2, "adam", ""),
        slow(4, 2, "adam", "--shard zero2 --offload optimizer:disk"),
    ],
)
def test_numbers_of_one_device(
    workers: int, groups: int, optimizer: str, options: str, trained: Callable[..., dict[str, Any]]
) -> None:
    # One of the rows takes the paths of NCCL.
    carrier = "nccl" if "zero2 --shard-embeddings" in options else ""
    one, several = dict(trained(1, 1, optimizer)), dict(trained(workers, groups, optimizer, options, carrier))
    stored, alone = several.pop("stored"), one.pop("stored")
    paths = keras.tree.flatten_with_path(one)
    for (path, expected), (_, found) in zip(paths, keras.tree.flatten_with_path(several), strict=True):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-9, err_msg=str(path))
    shares = workers // groups
    kernel = next(path for path in stored if path.endswith("dense/kernel"))
    assert stored[kernel] == [5, 33 // shares]
    assert stored["places/embeddings"] == [6 // groups, 12 // shares]
    is_table = "--shard-embeddings" in options
    assert stored["embedding/embeddings"] == ([50 // workers, 12] if is_table else [50 // shares, 12 // groups])
    whole = [path for path in stored if "normalization" in path and not path.startswith(optimizer)]
    assert whole and all(stored[path] == alone[path] for path in whole)
    if optimizer == "adam":  # Of the rows of a slice, each of those that have it updates some.
        is_shared = "zero" in options
        assert stored["adam/dense_kernel_velocity"] == [5 // groups if is_shared else 5, 33 // shares]


@pytest.mark.bound(BOUND + 60)
@pytest.mark.parametrize("option", ["--tensor 2", "--shard zero3"])
def test_weights_without_a_seed_are_the_chiefs(option: str, tmp_path: Path) -> None:
    """Each worker draws its shards, of the chief's seeds."""
    script = SCRIPT.with_name("unseeded_weights.py")
    run, model = ("train", "--nproc", 2, *option.split(), "--run-dir", tmp_path / "run"), tmp_path / "model.keras"
    done = tfdist(*run, script, model, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["same"] == [True] * 4 and said["weights"] == ["kernel", "bias"] and model.is_file()
    assert said["of a layer"] == ["CutVariable", 2] and said["in a function"] == ["CutVariable", True]
    assert [said[f"another {what}"] for what in ("initializer", "number", "array")] == [["CutVariable", 1]] * 3
    full = [5001 * 64, 64 * 333, 333 * 256, 256 * 222, 222 * 100]
    parts = [np.prod(shape) / size for shape, size in zip(said["stored"], full, strict=True)]
    np.testing.assert_allclose(parts, 0.5, atol=0.01)


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
