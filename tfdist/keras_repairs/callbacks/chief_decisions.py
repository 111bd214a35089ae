"""Makes every worker follow the chief's decisions at the same step: when to stop, and the learning rate.

A worker that stopped alone would leave the others waiting for it; one with a learning rate of its own would silently
train another model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.callbacks.callback_placement import (
    any_may_stop,
    any_reads_logs_periodically,
    any_reads_test_logs,
    any_watches,
)
from tfdist.runtime.collectives.chief_broadcast import variables_from_chief
from tfdist.runtime.collectives.decisions import all_gather, gather_objects

Logs = Mapping[str, Any] | None


@dataclass(frozen=True)
class DecisionPoints:
    """The decisions that callbacks of a `fit`, `evaluate` or `predict` may take, so that workers must agree, and when.

    Attributes:
        train: Whether some callback may stop the training at a batch.
        test: Whether some callback may stop an evaluation.
        predict: Whether some callback may stop a prediction.
        begins: Whether some callback may decide, before a training batch, how it is trained.
        best: Whether some callback brings back the weights of the best epoch.
        batches: Whether some callback looks at training batches, whether or not it may stop there.
        train_logs: Whether some callback or progress bar is given the logs of training batches.
        test_logs: The same of batches of an evaluation.
        periodic_logs: Whether some callback shows logs of training batches, read periodically.
        backups: How many callbacks back up and restore.
    """

    train: bool = False
    test: bool = False
    predict: bool = False
    begins: bool = False
    best: bool = False
    batches: bool = False
    train_logs: bool = False
    test_logs: bool = False
    periodic_logs: bool = False
    backups: int = 0

    @classmethod
    def of(cls, callbacks: Sequence[Any], *, has_bar: bool = False, trains: bool = True) -> DecisionPoints:
        """Returns what must be agreed on with `callbacks`.

        Args:
            callbacks: Those of one worker.
            has_bar: Whether Keras adds a progress bar to them.
            trains: Whether they are those of a `fit`, in whose validations its bar says nothing.
        """
        nan = any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in callbacks)
        has_bar = has_bar or any(isinstance(callback, keras.callbacks.ProgbarLogger) for callback in callbacks)
        batches = any_watches(callbacks)
        return cls(
            train=nan or any_may_stop(callbacks, "train"),
            test=any_may_stop(callbacks, "test"),
            predict=any_may_stop(callbacks, "predict"),
            begins=any_may_stop(callbacks, "begin"),
            best=any(_restores_best(callback) for callback in callbacks),
            batches=batches,
            train_logs=batches or has_bar,
            test_logs=any_reads_test_logs(callbacks) or (has_bar and not trains),
            periodic_logs=any_reads_logs_periodically(callbacks),
            backups=sum(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in callbacks),
        )

    def to_row(self) -> list[int]:
        """One integer a field, in their order."""
        return [int(getattr(self, field.name)) for field in fields(self)]

    @classmethod
    def of_row(cls, row: Sequence[int]) -> DecisionPoints:
        """Returns what `to_row` gave."""
        told = dict(zip((field.name for field in fields(cls)), row, strict=True))
        flags: dict[str, Any] = {name: bool(value) for name, value in told.items()}
        return cls(**(flags | {"backups": told["backups"]}))

    @classmethod
    def of_any(cls, workers: Sequence[DecisionPoints]) -> DecisionPoints:
        """Returns what must be agreed on with the callbacks of all workers, which may differ."""
        return cls.of_row([max(values) for values in zip(*(points.to_row() for points in workers), strict=True)])


class ChiefDecisions(keras.callbacks.Callback):
    """The last callback of every worker: shares the chief's decisions.

    Stopping is agreed on at the start and the end of every epoch, and after every batch where a callback may stop
    there: only then does a batch cost a collective.

    Args:
        watch: What the workers have to agree on, the same on all of them.
        callbacks: This worker's callbacks.
        strategy: A strategy of more than one worker.
    """

    def __init__(self, watch: DecisionPoints, callbacks: Sequence[Any], strategy: tf.distribute.Strategy) -> None:
        super().__init__()
        self._watch = watch
        self._callbacks = callbacks
        self._strategy = strategy
        self._agreed = False
        self._put_off = False
        self.ignores_batches = not watch.train

    def on_train_begin(self, logs: Logs = None) -> None:
        self._agreed = self._put_off = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._share_training()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._put_off:
            self.model.stop_training = True
        self._share_training()

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        if self._watch.begins:
            self._share_training()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._watch.train:
            self._share_training()
        elif self.model.stop_training and not self._agreed:
            # Set not by a callback but by a signal or a thread, which reaches each worker at another time.
            self.model.stop_training = False
            self._put_off = True

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._share_flag("stop_evaluating", self._watch.test)

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._share_flag("stop_predicting", self._watch.predict)

    def on_train_end(self, logs: Logs = None) -> None:
        if not self._watch.best:
            return
        epochs = [callback.best_epoch for callback in self._callbacks if _restores_best(callback)]
        said = gather_objects(epochs, self._strategy)
        if any(other != said[0] for other in said):
            variables_from_chief(self.model.weights, self._strategy)

    def _share_training(self) -> None:
        """Gives all workers the chief's flag and learning rates."""
        rates = list(_learning_rates(self.model))
        values = [_plain_value(rate) for rate in rates]
        chiefs = all_gather(np.array([self.model.stop_training, *values], np.float64), self._strategy)[0]
        self._agreed = self.model.stop_training = bool(chiefs[0])
        _adopt(rates, values, chiefs[1:])

    def _share_flag(self, name: str, watched: bool) -> None:
        flag = watched and bool(all_gather(bool(getattr(self.model, name)), self._strategy)[0])
        setattr(self.model, name, flag)


def _restores_best(callback: Any) -> bool:
    """Returns whether a callback sets, at the end of the training, the weights of the best epoch."""
    return isinstance(callback, keras.callbacks.EarlyStopping) and callback.restore_best_weights


def _learning_rates(model: Any) -> Iterator[Any]:
    """The learning rate of each optimizer of a model: a variable, or what takes its place."""
    for optimizer in optimizers_of(model):
        yield getattr(optimizer, "_learning_rate", None)


def _plain_value(rate: Any) -> float:
    return float(rate.numpy()) if isinstance(rate, keras.Variable) else math.nan


def _adopt(rates: Sequence[Any], values: Sequence[float], chiefs: np.ndarray) -> None:
    for rate, value, chief in zip(rates, values, chiefs, strict=True):
        if isinstance(rate, keras.Variable) and math.isfinite(chief) and value != chief:
            rate.assign(chief)
