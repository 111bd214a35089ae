"""Layers that compute with slices of their weights: the numbers of one device, and no weight that is gathered."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow

SCRIPT = "tests.workers.sliced_training"
BOUND = 600

QUICK = ("own_step", "own_gradient", "classifier", "language", "mlp", "images", "own_layer", "scores", "unusual")
KINDS = (*QUICK, "gated", "translation", "subclassed", "cached", "adapted")
"""Of models: each repair and each kind of rule has one among the quick ones that fails without it."""

_OF_STEP = {"Identity", "StridedSlice"}
JOINED: Mapping[str, set[str]] = {
    "own_step": {"Sum"},
    "own_gradient": {"BiasAddGrad", "Identity", "IdentityN", "SelectV2", "SplitV", "StridedSlice", "Sum"},
    "language": _OF_STEP,
    "scores": _OF_STEP,
    "mlp": {"Sum"},
    "gated": {"MatMul"},
    "own_layer": {"MatMul"},
    "translation": _OF_STEP,
    "unusual": {"Identity", "IdentityN", "MatMul", "Reshape", "Sum", "Transpose"},
}
"""By which operations own rows are put together in full: where outputs are handed out, of a regularizer of outputs, a
gradient of its own, and where a product follows that is not cut."""

GATHERED = {"unusual": ["unusual/up_steps/bias"]}
"""Weights that are gathered: of time steps that come before samples."""

EXCHANGES = {"own_layer": 45}
"""How often rows are gathered or exchanged, in all traces; in each of them once who has samples."""

IN_FLOAT32 = ("adapted",)
"""Keras has the weights of LoRA in float32, whatever the others are in."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains the script, once in each way; returns what it has printed."""

    @functools.cache
    def train(
        options: tuple[object, ...], groups: int, samples: int, kinds: tuple[str, ...], carrier: str | None = None
    ) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        environ = None if carrier is None else {"TFDIST_EMULATE_GPUS": carrier}
        # What the check of the first step compares is compared here.
        arguments = ("--check", "off", "--no-save", "--run-dir", place / "run", "-m", SCRIPT, groups, samples, *kinds)
        done = tfdist("train", *options, *arguments, timeout=BOUND, environ=environ)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    return train


def assert_same(one: dict[str, Any], several: dict[str, Any]) -> None:
    expected, found = (keras.tree.flatten_with_path(each["trained"]) for each in (one, several))
    for (path, value), (_, own) in zip(expected, found, strict=True):
        bound = 1e-6 if path[0] in IN_FLOAT32 else 1e-9
        np.testing.assert_allclose(own, value, bound, bound, err_msg=str(path))


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("workers", "groups", "samples", "kinds", "carrier"),
    [
        (2, 1, 65, QUICK, None),
        slow(2, 1, 65, KINDS, None),
        slow(2, 1, 65, KINDS, "nccl"),
        slow(2, 1, 64, KINDS, None),
        slow(2, 2, 65, KINDS, None),
        slow(3, 1, 65, KINDS, None),
        slow(3, 1, 2, KINDS, None),
        slow(4, 2, 64, KINDS, None),
        slow(4, 2, 65, KINDS, None),
        slow(4, 2, 65, QUICK, "nccl"),
        slow(4, 1, 65, KINDS, None),
    ],
)
def test_numbers_of_one_device(
    workers: int,
    groups: int,
    samples: int,
    kinds: tuple[str, ...],
    carrier: str | None,
    trained: Callable[..., dict[str, Any]],
) -> None:
    one = trained(("--nproc", 1), 1, samples, kinds)
    several = trained(("--nproc", workers), groups, samples, kinds, carrier)
    assert_same(one, several)
    if workers == groups:
        return
    # Another gradient than one device has: what follows from the tensor is computed of slices.
    assert not one["refused"] and "by a tensor of which each worker computes a slice" in several["refused"][0]
    if workers == 2 * groups:  # Two heads of keys have no slice on each of more workers.
        assert several["gathered"] == {kind: paths for kind, paths in GATHERED.items() if kind in kinds}
        assert not any(several["whole"].values())
        if samples % 16 == 0:  # All batches are full, and sizes that are numbers do not say that they are of rows.
            return
        assert all(several["exchanges"][kind] <= most for kind, most in EXCHANGES.items())
        for kind, joined in several["joined"].items():
            assert set(joined) <= JOINED.get(kind, set()), kind


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("devices", "groups", "samples", "kinds"),
    [(2, 1, 65, ("mlp",)), *(slow(*mesh, 65, KINDS) for mesh in ((2, 1), (2, 2), (3, 1), (4, 1), (4, 2)))],
)
def test_numbers_of_one_device_on_logical_devices(
    devices: int, groups: int, samples: int, kinds: tuple[str, ...], trained: Callable[..., dict[str, Any]]
) -> None:
    assert_same(*(trained(("--logical-devices", count), groups, samples, kinds) for count in (1, devices)))
