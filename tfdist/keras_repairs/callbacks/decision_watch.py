"""What the callbacks of a `fit`, `evaluate` or `predict` may decide, and so what the workers must agree on, and when.

Pure: it looks at callbacks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import keras

from tfdist.keras_repairs.loop.multi_step_execution import any_watches

_BATCH_METHODS = {
    "begin": ("on_train_batch_begin", "on_batch_begin"),
    "train": ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end"),
    # What they set before the first batch is read after it, too.
    "test": ("on_test_begin", "on_test_batch_begin", "on_test_batch_end"),
    "predict": ("on_predict_begin", "on_predict_batch_begin", "on_predict_batch_end"),
}
_KNOWN = ("keras.", "tfdist.")
"""Where the methods are defined of which it is known that they stop nothing."""


@dataclass(frozen=True)
class DecisionPoints:
    """What is to be shared by the workers.

    Attributes:
        train: Whether some callback may stop the training at a batch.
        test: Likewise an evaluation.
        predict: Likewise a prediction.
        begins: Whether some callback may decide, before a training batch, how it is trained.
        nan: Whether some callback stops the training at a loss that is not finite.
        best: Whether some callback brings back the weights of the best epoch.
        batches: Whether some callback looks at training batches, be it to stop there or not.
        backups: How many callbacks back up and restore.
    """

    train: bool = False
    test: bool = False
    predict: bool = False
    begins: bool = False
    nan: bool = False
    best: bool = False
    batches: bool = False
    backups: int = 0

    @classmethod
    def of(cls, callbacks: Sequence[Any]) -> DecisionPoints:
        """What `callbacks` make necessary."""
        nan = any(isinstance(callback, keras.callbacks.TerminateOnNaN) for callback in callbacks)
        return cls(
            train=nan or _may_stop(callbacks, "train"),
            test=_may_stop(callbacks, "test"),
            predict=_may_stop(callbacks, "predict"),
            begins=_may_stop(callbacks, "begin"),
            nan=nan,
            best=any(brings_back_best(callback) for callback in callbacks),
            batches=any_watches(callbacks),
            backups=sum(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in callbacks),
        )

    def to_row(self) -> list[int]:
        """One integer a field, in their order."""
        return [int(getattr(self, field.name)) for field in fields(self)]

    @classmethod
    def of_any(cls, rows: Sequence[Sequence[int]]) -> DecisionPoints:
        """What at least one of several workers, which may have been given different callbacks, makes necessary."""
        largest: dict[str, Any] = {field.name: max(row[i] for row in rows) for i, field in enumerate(fields(cls))}
        flags: dict[str, Any] = {name: bool(value) for name, value in largest.items()}
        return cls(**(flags | {"backups": int(largest["backups"])}))


def brings_back_best(callback: Any) -> bool:
    """Whether a callback sets, at the end of the training, the weights of the best epoch."""
    return isinstance(callback, keras.callbacks.EarlyStopping) and callback.restore_best_weights


def _may_stop(callbacks: Sequence[Any], phase: str) -> bool:
    return any(
        _is_users(callback, name)
        for callback in callbacks
        # By this Keras lets a callback say that its batches may be told in another thread: too late to stop anything.
        if not getattr(callback, "async_safe", False)
        for name in _BATCH_METHODS[phase]
    )


def _is_users(callback: Any, name: str) -> bool:
    """Whether the user wrote the method: in a class of their own, or as a function given to LambdaCallback."""
    if name in vars(callback):
        return True
    owner = next((cls for cls in type(callback).__mro__ if name in vars(cls)), None)
    return owner is None or not f"{owner.__module__}.".startswith(_KNOWN)
