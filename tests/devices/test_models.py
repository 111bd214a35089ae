from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tfdist import models


def words(samples: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 20, (samples, 6))


def images(samples: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 17, (samples, 8, 8, 1), np.uint8)


CASES = [
    pytest.param(models.mlp, {"inputs": [8, 8, 1], "hidden": [16, 8], "classes": 3}, images, id="mlp"),
    pytest.param(models.cnn, {"input_shape": [8, 8, 1], "filters": [4, 8], "classes": 3}, images, id="cnn"),
    pytest.param(models.tabular, {"inputs": [8, 8, 1], "hidden": [16, 8], "classes": 3}, images, id="tabular"),
    pytest.param(models.text_classifier, {"vocabulary": 20, "length": 6, "classes": 3}, words, id="text_classifier"),
    pytest.param(models.transformer, {"vocabulary": 20, "length": 6, "classes": 3}, words, id="transformer"),
]


@pytest.mark.parametrize(("build", "args", "samples"), CASES)
def test_probabilities(build: Callable[..., keras.Model], args: dict[str, Any], samples: Callable) -> None:
    probabilities = build(**args)(samples(5)).numpy()
    assert probabilities.shape == (5, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


LONGEST = pytest.param(*CASES[-1].values, id=CASES[-1].id, marks=pytest.mark.slow)


@pytest.mark.parametrize(("build", "args", "samples"), [*CASES[:-1], LONGEST])
def test_it_learns(build: Callable[..., keras.Model], args: dict[str, Any], samples: Callable) -> None:
    keras.utils.set_random_seed(1)
    x, y = samples(60), np.arange(60) % 3
    model = build(**args)
    model.compile("adam", "sparse_categorical_crossentropy")
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, epochs=10, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before


@pytest.mark.parametrize(("build", "args", "samples"), CASES)
def test_plain_keras_loads_it(
    build: Callable[..., keras.Model], args: dict[str, Any], samples: Callable, tmp_path: Path
) -> None:
    model, x = build(**args), samples(2)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(x), model(x))


def test_the_scale_of_the_inputs_does_not_matter() -> None:
    model, x = models.mlp([64], [16], 3), images(4).reshape(4, 64).astype(np.float32)
    np.testing.assert_allclose(model(x), model(x * 16), rtol=1e-3)


def test_positions_matter_to_the_transformer() -> None:
    keras.utils.set_random_seed(1)
    model, x = models.transformer(20, 6, 3), words(1)
    assert np.abs(model(x) - model(x[:, ::-1])).max() > 1e-4
