"""All objects that a config describes, made and compared with its data: the same for a check and for a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.training.config_objects.model_builder import make_model, values_of
from tfdist.training.config_objects.problems import Problem, Problems
from tfdist.training.config_objects.sample_shapes import check_samples


def checked_model(config: RunConfig, strategy: tf.distribute.Strategy) -> keras.Model:
    """Builds and compiles the model of a config, and compares the headers of the data with it.

    Args:
        config: The config; its precision is that of Keras already.
        strategy: Under which the variables are made.

    Raises:
        ConfigError: A dotted path, a name, an argument or a value is wrong; the text has all that is.
        DataError: The data is damaged, or does not fit the model.
    """
    problems = Problems()
    model = _make(values_of(config), strategy, (), problems)
    problems.raise_any()
    assert model is not None, "else there is a problem"
    return model


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
) -> keras.Model | None:
    with strategy.scope():
        model = make_model(values, problems)
    check_samples(model, values, skipped, problems)
    return model
