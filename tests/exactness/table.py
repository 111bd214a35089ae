"""The table of cases, one a feature, and what they share: `cases` holds them all.

A case takes the number of samples and returns what `outcome` reads: the model, the history and the data to evaluate
and predict on. All run in float64, where rounding is far below any fault of the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

BATCH = 32
EPOCHS = 3
layers = keras.layers

Case = Callable[[int], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def outcome(name: str, samples: int) -> dict[str, Any]:
    """Runs a case from fixed seeds and returns its numbers: history, weights, evaluation, predictions."""
    before = keras.backend.floatx()
    keras.backend.clear_session()
    keras.backend.set_floatx("float64")
    keras.utils.set_random_seed(11)
    try:
        return _numbers_of(CASES[name](samples))
    finally:
        keras.backend.set_floatx(before)
        # Keras keeps the dtype policy that it first made of it.
        keras.backend.clear_session()


def _numbers_of(made: dict[str, Any]) -> dict[str, Any]:
    model, x = made["model"], made["x"]
    evaluate = {} if made.get("y") is None else {"y": made["y"]}
    options = {"batch_size": BATCH} if isinstance(x, np.ndarray) else {}
    return {
        "history": made["history"].history,
        "iterations": int(model.optimizer.iterations.numpy()),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "evaluate": model.evaluate(x, **evaluate, **options, verbose=0, return_dict=True)
        if made.get("evaluate", True)
        else {},
        "predict": [np.asarray(p).tolist() for p in keras.tree.flatten(model.predict(x, **options, verbose=0))],
    }


def numbers(samples: int, features: int = 6, classes: int = 3, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(samples, features))
    return x, generator.integers(0, classes, samples)


def tokens(samples: int, length: int = 7, seed: int = 5) -> np.ndarray:
    """Rows of word ids that end in 0, the padding, at very different lengths."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(1, 20, (samples, length))
    ids[np.arange(length) >= generator.integers(1, length + 1, samples)[:, None]] = 0
    return ids


def classifier(**options: Any) -> keras.Model:
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="tanh", **options), layers.Dense(3, activation="softmax")]
    )


def fitted(model: keras.Model, x: Any, y: Any, compiled: dict[str, Any] | None = None, **fit: Any) -> dict[str, Any]:
    settings = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": "sparse_categorical_crossentropy"}
    model.compile(**settings | (compiled or {}))
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, **fit)
    return {"model": model, "x": x, "y": y, "history": history}


def fitted_on(
    model: keras.Model, data: Any, x: Any = None, compiled: dict[str, Any] | None = None, **fit: Any
) -> dict[str, Any]:
    """Fits on something that brings its own batches."""
    settings = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}
    model.compile(**{"optimizer": keras.optimizers.Adam(0.01), **settings, **(compiled or {})})
    history = model.fit(data, epochs=EPOCHS, verbose=0, **fit)
    return {"model": model, "x": data if x is None else x, "history": history}
