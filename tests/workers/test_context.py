"""`--context`: sequences that workers share, with the numbers of one device."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow

SCRIPT = "tests.workers.context_training"
BOUND = 600

QUICK = ("decoder", "mixed", "own_step")
KINDS = (*QUICK, "translation", "weighted")

_OF_OUTPUTS = {"Identity", "StridedSlice", "Sum"}
JOINED = {
    "decoder": _OF_OUTPUTS,
    "translation": _OF_OUTPUTS,
    "own_step": {"Identity", "Max", "Mean", "ReverseV2", "StridedSlice"},
}
"""By which operations samples are put together: where outputs are handed out, and where a loss is reduced."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains the script, once in each way; returns what it has printed."""

    @functools.cache
    def train(options: tuple[object, ...], samples: int, kinds: tuple[str, ...], carrier: str | None) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        environ = None if carrier is None else {"TFDIST_EMULATE_GPUS": carrier}
        # What the check of the first step compares is compared here.
        arguments = ("--check", "off", "--no-save", "--run-dir", place / "run", "-m", SCRIPT, samples, *kinds)
        done = tfdist("train", *options, *arguments, timeout=BOUND, environ=environ)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    return train


@pytest.mark.bound(2 * BOUND + 60)
@pytest.mark.parametrize(
    ("options", "samples", "kinds", "carrier"),
    [
        (("--nproc", 2, "--context", 2), 7, QUICK, None),
        slow(("--nproc", 2, "--context", 2), 7, KINDS, None),
        slow(("--nproc", 2, "--context", 2), 10, KINDS, "nccl"),
        slow(("--nproc", 3, "--context", 3), 7, KINDS, None),
        slow(("--nproc", 4, "--context", 2), 7, KINDS, None),
        slow(("--nproc", 4, "--context", 2), 7, KINDS, "nccl"),
        slow(("--nproc", 4, "--context", 4), 7, KINDS, None),
        slow(("--nproc", 2, "--context", 2, "--shard", "zero2"), 7, KINDS, None),
        slow(("--nproc", 4, "--context", 2, "--shard", "zero3", "--shard-embeddings", 20), 7, KINDS, None),
    ],
)
def test_numbers_of_one_device(
    options: tuple[object, ...],
    samples: int,
    kinds: tuple[str, ...],
    carrier: str | None,
    trained: Callable[..., dict[str, Any]],
) -> None:
    one, several = trained(("--nproc", 1), samples, kinds, None), trained(options, samples, kinds, carrier)
    expected, found = (keras.tree.flatten_with_path(each["trained"]) for each in (one, several))
    for (path, value), (_, own) in zip(expected, found, strict=True):
        np.testing.assert_allclose(own, value, 1e-9, 1e-9, err_msg=str(path))
    assert not any(one["cut"].values()) and all(several["cut"][kind] > 40 for kind in kinds)
    for kind in set(kinds) & set(JOINED):
        assert set(several["joined"][kind]) <= JOINED[kind], kind
