"""The table of cases, one a feature, and what they share: `cases` holds them all.

A case takes the number of samples and returns what `outcome` reads: the model, the history, the data to evaluate and
predict on, and what else is to be compared. Most run in float64, where rounding is far below any fault of the method.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tests.exactness.later_classes import has

BATCH = 32
EPOCHS = 3
layers = keras.layers

ONLY_TRAINED = {"evaluate": False, "predict": False}
"""For a case whose feature is of the training alone: tracing two more functions would prove nothing more."""

NOT_EVALUATED = {"evaluate": False}
"""For a case that takes long to compile, and whose feature `predict` shows without a gradient."""

Make = Callable[[int], dict[str, Any]]


@dataclass(frozen=True)
class Precision:
    """What a case computes in, and how far the numbers of several replicas may be from those of one.

    Attributes:
        floatx: Keras's `floatx`.
        policy: The dtype policy of its layers.
        losses: Relative, of whatever `fit` and `evaluate` return.
        weights: Relative, and absolute, of weights and predictions.
    """

    floatx: str
    policy: str
    losses: float
    weights: float

    def __post_init__(self) -> None:
        if not 0 < self.losses <= self.weights < 1:
            raise ValueError(f"Tolerances are between 0 and 1, and weights vary most. Received: {self}")


FLOAT64 = Precision("float64", "float64", losses=1e-9, weights=1e-9)
"""After three epochs: some hundred times what the order of the summands alone does."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: Of its function.
        title: For people.
        make: The function.
        precision: What it computes in.
    """

    name: str
    title: str
    make: Make
    precision: Precision


CASES: dict[str, Case] = {}


def case(title: str, precision: Precision = FLOAT64, needs: str = "") -> Callable[[Make], Make]:
    """Registers a function as the case of its name, where this Keras has the class that it needs."""

    def register(make: Make) -> Make:
        if not has(needs):
            return make
        if make.__name__ in CASES:
            raise ValueError(f"There are two cases {make.__name__!r}.")
        CASES[make.__name__] = Case(make.__name__, title, make, precision)
        return make

    return register


def outcome(name: str, samples: int, *, of_training_alone: bool = False) -> dict[str, Any]:
    """Runs a case of the table, see `outcome_of`."""
    return outcome_of(CASES[name], samples, of_training_alone=of_training_alone)


def outcome_of(case: Case, samples: int, *, of_training_alone: bool = False) -> dict[str, Any]:
    """Runs a case from fixed seeds and returns its numbers: history, weights and, unless left out, what comes after."""
    precision = case.precision
    before = keras.backend.floatx()
    _forget()
    keras.backend.set_floatx(precision.floatx)
    keras.config.set_dtype_policy(precision.policy)
    keras.utils.set_random_seed(11)
    try:
        made = case.make(samples)
        return _numbers_of(made | ONLY_TRAINED if of_training_alone else made)
    finally:
        keras.backend.set_floatx(before)
        # Keras keeps the dtype policy, and what it made of it.
        _forget()
        keras.config.set_dtype_policy(before)


def _forget() -> None:
    """Forgets the models of the last case.

    At once: the older TensorFlow's iterators are, the longer their end has to wait for TensorFlow's tuner. What is left
    is not looked through again.
    """
    keras.backend.clear_session(free_memory=False)
    gc.collect()
    gc.freeze()


def _numbers_of(made: dict[str, Any]) -> dict[str, Any]:
    model, x = made["model"], made["x"]
    evaluate = {} if made.get("y") is None else {"y": made["y"]}
    options = {"batch_size": BATCH} if isinstance(x, np.ndarray) else {}
    result = {
        "history": made["history"],
        "iterations": int(model.optimizer.iterations.numpy()),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "seen": made.get("seen", []),
    }
    if made.get("evaluate", True):
        result["evaluate"] = model.evaluate(x, **evaluate, **options, verbose=0, return_dict=True)
    if made.get("predict", True):
        predicted = model.predict(x, **options, verbose=0)
        result["predict"] = [np.asarray(part).tolist() for part in keras.tree.flatten(predicted)]
    return result


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


def token_classifier(*hidden: layers.Layer) -> keras.Model:
    """Of each of `tokens`, whose padding is masked, or of each row where the hidden layers give one value a row."""
    words = layers.Embedding(20, 4, mask_zero=True)
    return keras.Sequential([keras.Input((7,)), words, *hidden, layers.Dense(3, activation="softmax")])


def fitted(model: keras.Model, x: Any, y: Any, compiled: dict[str, Any] | None = None, **fit: Any) -> dict[str, Any]:
    settings = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": "sparse_categorical_crossentropy"}
    model.compile(**settings | (compiled or {}))
    history = model.fit(x, y, **{"batch_size": BATCH, "epochs": EPOCHS, "verbose": 0} | fit)
    return {"model": model, "x": x, "y": y, "history": history.history}


def fitted_on(
    model: keras.Model, data: Any, x: Any = None, compiled: dict[str, Any] | None = None, **fit: Any
) -> dict[str, Any]:
    """Fits on something that brings its own batches."""
    settings = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}
    model.compile(**{"optimizer": keras.optimizers.Adam(0.01), **settings, **(compiled or {})})
    history = model.fit(data, epochs=EPOCHS, verbose=0, **fit)
    return {"model": model, "x": data if x is None else x, "history": history.history}
