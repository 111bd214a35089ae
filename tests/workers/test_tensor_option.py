"""`--tensor`: the numbers of one device, by layouts that the script does not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.helpers.cli_process import tfdist

SCRIPT = Path(__file__).with_name("tensor_training.py")
BOUND = 300


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Trains the script with options; returns what it has printed."""

    def train(*options: object) -> dict[str, Any]:
        place = tmp_path_factory.mktemp("trained")
        done = tfdist("train", *options, "--run-dir", place / "run", SCRIPT, place / "model", timeout=BOUND)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        saved = keras.models.load_model(place / "model.keras")
        said["saved"] = float(sum(np.abs(weight).sum() for weight in saved.get_weights()))
        return said

    return train


@pytest.mark.bound(2 * BOUND + 60)
def test_numbers_of_one_device(trained: Callable[..., dict[str, Any]]) -> None:
    one, several = trained(), trained("--nproc", 2, "--tensor", 2)
    stored, alone = several.pop("stored"), one.pop("stored")
    paths = keras.tree.flatten_with_path(one)
    for (path, expected), (_, found) in zip(paths, keras.tree.flatten_with_path(several), strict=True):
        np.testing.assert_allclose(found, expected, 1e-9, 1e-9, err_msg=str(path))
    assert {path: shape for path, shape in stored.items() if shape != alone[path]} == {
        "embedding/embeddings": [1000, 64],
        "attention/query/kernel": [64, 1, 96],
        "attention/query/bias": [1, 96],
        "attention/key/kernel": [64, 1, 96],
        "attention/key/bias": [1, 96],
        "attention/value/kernel": [64, 1, 96],
        "attention/value/bias": [1, 96],
        "attention/attention_output/kernel": [1, 96, 64],
        "wide/kernel": [64, 128],
        "wide/bias": [128],
        "narrow/kernel": [128, 64],
        "words/kernel": [64, 1000],
        "words/bias": [1000],
    }
