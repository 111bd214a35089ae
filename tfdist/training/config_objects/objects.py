"""All objects that a config describes, made and compared with its data: the same for a check and for a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.field_errors import FieldError, dotted, shown
from tfdist.config.yaml_document import Document
from tfdist.training.config_objects.distillation_maker import Lesson, add_distillation
from tfdist.training.config_objects.model_builder import make_model, values_of
from tfdist.training.config_objects.object_maker import CALLBACK, make_object
from tfdist.training.config_objects.problems import Problem, Problems
from tfdist.training.config_objects.sample_shapes import check_samples
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


@dataclass(frozen=True)
class ConfigObjects:
    """The objects that a run trains with.

    Attributes:
        model: The compiled model.
        callbacks: Those that the config names.
        lesson: What the teacher of the model is; None without one.
    """

    model: keras.Model
    callbacks: list[keras.callbacks.Callback]
    lesson: Lesson | None = None

    @property
    def teacher(self) -> str:
        """The digest that tells the teacher from others; empty without one, and for one that code makes."""
        return "" if self.lesson is None else self.lesson.digest


def checked_objects(
    config: RunConfig, strategy: tf.distribute.Strategy, document: Document | None = None
) -> ConfigObjects:
    """Makes what a config describes, and compares the headers of the data with it.

    Args:
        config: The config; its precision is that of Keras already.
        strategy: Under which the variables are made.
        document: The config's file, for the lines in errors; None where it has none.

    Raises:
        ConfigError: A dotted path, a name, an argument or a value is wrong; the text has all that is.
        DataError: The data is damaged, or does not fit the model.
    """
    problems = Problems()
    model, callbacks, lesson = _make(values_of(config), strategy, (), problems)
    problems.raise_any(document)
    assert model is not None, "else there is a problem"
    return ConfigObjects(model, callbacks, lesson)


def check_parts(
    values: Mapping[str, Any], strategy: tf.distribute.Strategy, skipped: Collection[str] = ()
) -> list[Problem]:
    """Checks a config as far as its keys are valid.

    Args:
        values: The values of the dotted keys that are.
        strategy: Under which the variables are made.
        skipped: The dotted keys of data whose files are known to be missing.
    """
    problems = Problems()
    _make(values, strategy, skipped, problems)
    return problems.found


def _make(
    values: Mapping[str, Any], strategy: tf.distribute.Strategy, skipped: Collection[str], problems: Problems
) -> tuple[keras.Model | None, list[keras.callbacks.Callback], Lesson | None]:
    with strategy.scope():
        model = make_model(values, problems)
    callbacks = make_callbacks(values, problems)
    with problems.collecting():
        check_class_weight(values, getattr(model, "output_names", None))
    check_samples(model, values, skipped, problems)
    # Last: a teacher may take minutes to load, and draws nothing that the model would have drawn.
    lesson = add_distillation(model, values, strategy, problems)
    return model, callbacks, lesson
