"""Callbacks that decide, and callbacks that look on; the steps between them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import ONLY_TRAINED, case, classifier, fitted, numbers

callbacks = keras.callbacks

MANY = 2
"""A batch size with which an epoch has some 30 steps, more than it takes to run several of them in one execution."""


def called(samples: int, *given: keras.callbacks.Callback, **fit: Any) -> dict[str, Any]:
    return fitted(classifier(), *numbers(samples), callbacks=list(given), **fit) | ONLY_TRAINED


@case("`ReduceLROnPlateau`")
def reduced_learning_rate(samples: int) -> dict[str, Any]:
    return called(samples, callbacks.ReduceLROnPlateau("loss", factor=0.2, patience=1, min_delta=10.0))


@case("`LearningRateScheduler`")
def scheduled_learning_rate(samples: int) -> dict[str, Any]:
    return called(samples, callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5))


@case("`EarlyStopping` with `restore_best_weights`")
def early_stopping(samples: int) -> dict[str, Any]:
    """No epoch is better than the first by so much: the weights of the first come back after the second."""
    stopping = callbacks.EarlyStopping("loss", patience=1, min_delta=10.0, restore_best_weights=True)
    made = called(samples, stopping)
    return made | {"seen": [stopping.stopped_epoch, stopping.best_epoch]}


@case("`TerminateOnNaN`, a NaN on one replica")
def terminate_on_nan(samples: int) -> dict[str, Any]:
    """In the second batch: what was counted and what is left of the weights is the same."""
    x, y = numbers(samples)
    x[-3] = np.nan
    seen: list[int] = []
    given = [callbacks.TerminateOnNaN(), callbacks.LambdaCallback(on_train_batch_end=lambda i, logs: seen.append(i))]
    made = fitted(classifier(), x, y, shuffle=False, callbacks=given)
    return made | ONLY_TRAINED | {"seen": seen}


class StopsAt(keras.callbacks.Callback):
    """Stops the training after so many batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if self.left == 0:
            self.model.stop_training = True


@case("a callback of one's own that stops inside an epoch")
def stopped_inside_an_epoch(samples: int) -> dict[str, Any]:
    return called(samples, StopsAt(4))


class Decays(keras.callbacks.Callback):
    """Halves the learning rate after some batches, by what `float`, `int` and NumPy make of variables."""

    def __init__(self) -> None:
        super().__init__()
        self.halved = tf.Variable(0)
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        rate, step = float(self.model.optimizer.learning_rate), int(self.model.optimizer.iterations)
        self.seen += [rate, step, float(np.array(self.model.optimizer.learning_rate.value))]
        if step >= 2 and not int(self.halved):
            self.model.optimizer.learning_rate = rate / 2
            self.halved.assign(1)


@case("a callback that takes variables for numbers")
def variables_as_numbers(samples: int) -> dict[str, Any]:
    decays = Decays()
    return called(samples, decays) | {"seen": decays.seen}


@case("`SwapEMAWeights`")
def swapped_averages(samples: int) -> dict[str, Any]:
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.7)
    model, (x, y) = classifier(), numbers(samples)
    swap = callbacks.SwapEMAWeights(swap_on_epoch=True)
    made = fitted(model, x, y, {"optimizer": optimizer}, validation_data=(x, y), callbacks=[swap])
    return made | ONLY_TRAINED


@case("many small steps that nobody looks at")
def unwatched_steps(samples: int) -> dict[str, Any]:
    """Several of them run in one execution, of which the last has fewer; a validation lies between the epochs."""
    x, y = numbers(samples)
    model = classifier()
    settings = {"metrics": ["accuracy"], "optimizer": keras.optimizers.Adam(0.01)}
    return fitted(model, x, y, settings, batch_size=MANY, validation_data=(x[:9], y[:9])) | ONLY_TRAINED


@case("many small steps, a callback looks at each")
def watched_steps(samples: int) -> dict[str, Any]:
    """It is called for every batch, with the batch's number."""
    x, y = numbers(samples)
    seen: list[int] = []
    look = callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
    settings = {"metrics": ["accuracy"], "optimizer": keras.optimizers.Adam(0.01)}
    made = fitted(classifier(), x, y, settings, batch_size=MANY, validation_data=(x[:9], y[:9]), callbacks=[look])
    return made | ONLY_TRAINED | {"seen": seen}


@case("`train_on_batch`, `test_on_batch`, `predict_on_batch`")
def on_batch(samples: int) -> dict[str, Any]:
    """With a metric that counts: a sample that two replicas had would count twice."""
    x, y = numbers(samples)
    y = keras.utils.to_categorical(y, 3)
    model = classifier()
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy", keras.metrics.TruePositives(0.34)])
    weight = np.linspace(0.0, 2.0, samples)
    history = {
        "weighted": model.train_on_batch(x, y, sample_weight=weight),
        "classes": model.train_on_batch(x[:5], y[:5], class_weight={0: 1.0, 1: 5.0, 2: 0.2}),
        "one": model.train_on_batch(x[:1], y[:1]),
        "all": list(model.get_metrics_result().values()),
    }
    model.reset_metrics()
    history |= {
        "test": model.test_on_batch(x, y),
        "all tested": list(model.get_metrics_result().values()),
        "predict": np.asarray(model.predict_on_batch(x)).ravel(),
    }
    history = {name: np.asarray(value).tolist() for name, value in history.items()}
    return {"model": model, "x": x, "history": history} | ONLY_TRAINED
