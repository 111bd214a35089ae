"""Layers that compute with slices of their weights: the numbers of one device, and no weight that is gathered."""

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

SCRIPT = Path(__file__).with_name("sliced_training.py")
BOUND = 400
JOINED = {"BiasAdd", "MatMul", "Reshape", "Shape", "Softmax", "StridedSlice", "Sum"}
"""What reads own rows in full: losses and sums, a softmax over what is cut, a bias and a product not cut alike."""

KINDS = ("gated", "own_step", "own_gradient", "classifier", "language")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains the script on workers of a mesh; returns what it has printed."""

    def train(workers: int, groups: int, samples: int, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        options = ("train", "--nproc", workers, "--run-dir", place / "run")
        done = tfdist(*options, SCRIPT, groups, samples, *KINDS, timeout=BOUND, environ=environ)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    return train


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("workers", "groups", "samples", "carrier"),
    [
        (2, 1, 65, None),
        slow(2, 1, 65, "nccl"),
        slow(2, 1, 64, None),
        slow(3, 1, 65, None),
        slow(3, 1, 2, None),
        slow(4, 2, 65, None),
        slow(4, 2, 65, "nccl"),
        slow(4, 1, 65, None),
    ],
)
def test_numbers_of_one_device(
    workers: int, groups: int, samples: int, carrier: str | None, trained: Callable[..., dict[str, Any]]
) -> None:
    environ = None if carrier is None else {"TFDIST_EMULATE_GPUS": carrier}
    one, several = trained(1, 1, samples), trained(workers, groups, samples, environ)
    expected, found = (keras.tree.flatten_with_path(each["trained"]) for each in (one, several))
    for (path, value), (_, own) in zip(expected, found, strict=True):
        np.testing.assert_allclose(own, value, 1e-9, 1e-9, err_msg=str(path))
    # Another gradient than one device has: what follows from the tensor is computed of slices.
    assert not one["refused"] and "by a tensor of which each worker computes a slice" in several["refused"][0]
    if workers == 2 * groups:  # Two heads of keys have no slice on each of more workers.
        assert several["gathered"] == [] and set(several["joined"]) <= JOINED
