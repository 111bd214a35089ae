"""The callbacks that a config names: made, and refused where a run from a config does the same in a better way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras

from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.training.config_objects.keras_names import CALLBACK
from tfdist.training.config_objects.object_maker import make_object
from tfdist.training.config_objects.problems import Problems
from tfdist.training.pruning.pruning_callback import Pruning

_CHECKPOINTS = "a run saves itself and resumes at the next step: see the section checkpoint"
_INSTEAD: Mapping[type, str] = MappingProxyType(
    {
        keras.callbacks.BackupAndRestore: _CHECKPOINTS,
        keras.callbacks.ModelCheckpoint: "checkpoint.best keeps the best epoch, and checkpoint.keep the latest ones",
        # Keras 3.12 and 3.13 have no OrbaxCheckpoint.
        **{callback: _CHECKPOINTS for name, callback in vars(keras.callbacks).items() if name == "OrbaxCheckpoint"},
        keras.callbacks.CSVLogger: "a run writes its metrics into metrics.jsonl, history.json and events/",
        keras.callbacks.History: "a run writes history.json",
        keras.callbacks.ProgbarLogger: "a run shows its progress: tfdist train --progress bar",
    }
)
"""A callback whose work a run from a config does itself -> how."""

_FUNCTIONS: Mapping[type, str] = MappingProxyType(
    {
        keras.callbacks.LambdaCallback: "{build: my.module.make_callback}",
        keras.callbacks.LearningRateScheduler: (
            "the optimizer's learning_rate: {name: cosine_decay, initial_learning_rate: 0.1, decay_steps: 1000}, or "
            "{build: my.module.make_callback}"
        ),
    }
)
"""A callback that takes a function, which no name in a config is -> what to write instead."""

_MONITORS = (keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau)


def make_callbacks(values: Mapping[str, Any], problems: Problems) -> list[keras.callbacks.Callback]:
    """Makes the callbacks of a config, and goes on after a mistake.

    Args:
        values: The values of a config that are valid, by dotted key.
        problems: Takes what is wrong.
    """
    made = []
    # Where data.validation is not valid itself, there is to be one.
    validates = "data.validation" not in values or values["data.validation"] is not None
    for place, value in enumerate(values.get("fit.callbacks", ())):
        with problems.collecting():
            made.append(_made(value, dotted("fit.callbacks", str(place)), validates))
    # The last word on the weights: others may bring back those of an epoch that had less masked.
    return sorted(made, key=lambda callback: isinstance(callback, Pruning))


def _made(value: Any, key: str, validates: bool) -> keras.callbacks.Callback:
    name = value if isinstance(value, str) else value.get("name")
    if name is not None:
        kind = CALLBACK.find(name, key)
        _check_kind(kind, {**_INSTEAD, **_FUNCTIONS}, key, value)
        if kind is keras.callbacks.TensorBoard and (isinstance(value, str) or "log_dir" not in value):
            raise FieldError(
                key,
                "expected its log_dir. Loss and metrics are in the run directory's events/ without it. "
                f"Received: {shown(value)}",
            )
    callback = make_object(CALLBACK, value, key)
    _check_kind(type(callback), _INSTEAD, key, value)
    monitor = getattr(callback, "monitor", "")
    if isinstance(callback, _MONITORS) and str(monitor).startswith("val_") and not validates:
        raise FieldError(
            dotted(key, "monitor") if "monitor" in value and name is not None else key,
            f"expected to monitor a metric of the training, such as loss, as there is no data.validation. "
            f"Received: {monitor}",
        )
    return callback


def _check_kind(kind: type, refused: Mapping[type, str], key: str, value: Any) -> None:
    for other, instead in refused.items():
        if issubclass(kind, other):
            raise FieldError(key, f"{other.__name__} is for scripts; {instead}. Received: {shown(value)}")


def check_class_weight(values: Mapping[str, Any], outputs: Sequence[str] | None) -> None:
    """Checks that a model takes weights of classes.

    Args:
        values: The values of a config that are valid, by dotted key.
        outputs: The names of the model's outputs; None where they are not known.

    Raises:
        FieldError: It has several outputs, for which Keras takes none.
    """
    weights = values.get("fit.class_weight")
    if weights is not None and outputs is not None and len(outputs) > 1:
        raise FieldError(
            "fit.class_weight",
            f"expected a model of one output; this one has {', '.join(outputs)}. Let data.train.parse return "
            f"(x, y, weights) instead. Received: {shown(weights)}",
        )
