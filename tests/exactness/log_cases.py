"""Logs of steps of the user's own: what `train_step` and `test_step` return besides the results of metrics."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

import tfdist
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import BATCH, case, fitted, numbers


class OwnScore(OwnStep):
    """Logs a score of the results of two metrics, and one of them under a name of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.first = keras.metrics.Mean(name="first")

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        super().measured(y, y_pred, loss)
        self.first.update_state(y_pred[:, 0])
        right, first = self.error.result(), self.first.result()
        return {"score": 2 * right * first / (right + first), "right": right}


def scores(samples: int, **compiled: Any) -> dict[str, Any]:
    logged: list[float] = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: logged.append(float(logs["score"])))
    stop = keras.callbacks.EarlyStopping(monitor="val_score", mode="min", min_delta=0.01)
    slow_down = keras.callbacks.ReduceLROnPlateau(monitor="score", mode="max", min_delta=0.1, patience=1)
    made = fitted(of(OwnScore), *numbers(samples), compiled, callbacks=[note, stop, slow_down],
                  validation_data=numbers(33, seed=6))  # fmt: skip
    return {**made, "seen": logged}


@case("a score that a step of one's own computes from results of metrics, and callbacks that follow it")
def logged_score_of_metrics(samples: int) -> dict[str, Any]:
    return scores(samples)


@case("a score that a step computes from results of metrics, `run_eagerly`")
def logged_score_of_metrics_eagerly(samples: int) -> dict[str, Any]:
    return scores(samples, run_eagerly=True)


@case("a score that a step computes from results of metrics, `steps_per_execution`")
def logged_score_of_metrics_of_several_steps(samples: int) -> dict[str, Any]:
    return scores(samples, steps_per_execution=3)


def right_ones(y: Any, y_pred: Any) -> Any:
    return ops.sum(ops.cast(ops.equal(ops.argmax(y_pred, axis=-1), ops.cast(y, "int64")), "int32"))


class OwnValues(OwnStep):
    """Logs means under the names of metrics that it does not update, and numbers of other kinds."""

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [*super().metrics, self._loss_tracker]

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        counted = tfdist.summed(right_ones(y, y_pred))
        everywhere = tfdist.gathered(lambda y, y_pred: ops.max(y_pred))(y, y_pred)
        return {
            "loss": loss,
            "own_accuracy": ops.cast(right_ones(y, y_pred), loss.dtype) / ops.cast(ops.shape(y)[0], loss.dtype),
            "samples": ops.shape(y)[0],
            "right": counted,
            "largest": everywhere,
            "steps": self.optimizer.iterations,
            "rate": self.optimizer.learning_rate,
            "constant": 3,
        }


class OwnArrays(OwnValues):
    """Logs arrays besides, of a fixed shape and of the samples."""

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        logs = super().measured(y, y_pred, loss)
        return {**logs, "classes": ops.mean(y_pred, axis=0), "best": ops.argmax(y_pred, axis=1)}


@case("numbers and arrays of a batch that a step of one's own logs, under names of metrics too")
def logged_values(samples: int) -> dict[str, Any]:
    return fitted(of(OwnArrays), *numbers(samples), validation_data=numbers(33, seed=6))


class OwnEagerValues(OwnValues):
    """Without what cannot be told in steps that run eagerly."""

    def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        logs = super().measured(y, y_pred, loss)
        del logs["constant"]
        return logs


@case("numbers of a batch that a step of one's own logs, `run_eagerly`")
def logged_values_eagerly(samples: int) -> dict[str, Any]:
    settings = {"run_eagerly": True}
    return fitted(of(OwnEagerValues), *numbers(samples), settings, validation_data=numbers(33, seed=6))


@case("what steps of one's own log in `train_on_batch` and `test_on_batch`")
def logs_of_single_batches(samples: int) -> dict[str, Any]:
    seen: list[Any] = []
    x, y = numbers(samples)
    for kind in (OwnScore, OwnValues):
        model = of(kind)
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        for start in range(0, samples, BATCH):
            batch = x[start : start + BATCH], y[start : start + BATCH]
            seen += [model.train_on_batch(*batch, return_dict=True), model.train_on_batch(*batch)]
            seen += [model.test_on_batch(*batch, return_dict=True), model.test_on_batch(*batch)]
    return {"model": model, "x": x, "y": y, "history": {}, "seen": seen, "evaluate": False, "predict": False}
