"""All objects that a config describes, made and compared with its data: the same for a check and for a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.yaml_document import Document
from tfdist.training.config_objects.callback_maker import check_class_weight, make_callbacks
from tfdist.training.config_objects.distillation_maker import Lesson, add_distillation
from tfdist.training.config_objects.model_builder import make_model, values_of
from tfdist.training.config_objects.problems import Problem, Problems
from tfdist.training.config_objects.sample_shapes import check_samples


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
