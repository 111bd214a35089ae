"""Builds and compiles the model of a config's sections `model` and `compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import CompileConfig, RunConfig, resolve_callable
from tfdist.errors import ConfigError
from tfdist.training.supervision.user_frames import is_raised_by_user

_RESOLVED_BY_SHAPE = ("accuracy", "acc", "crossentropy", "ce")
"""Names that Keras resolves by the shapes of labels and predictions."""


def build_model(config: RunConfig, strategy: tf.distribute.Strategy) -> keras.Model:
    """Builds and compiles the model that a config describes, under `strategy`.

    Raises:
        ConfigError: The dotted path, the arguments or a name in the section `compile` does not fit.
    """
    build = resolve_callable(config.model.build, "model.build")
    with strategy.scope():
        model = _call(build, config.model.args, "model.args")
        if not isinstance(model, keras.Model):
            raise ConfigError(
                f"model.build must name a function that returns a keras.Model. Received: {config.model.build}, which "
                f"returned {type(model).__name__}."
            )
        section = config.compile
        try:
            _check_names(section)
            model.compile(
                optimizer=keras.optimizers.get(_named(section.optimizer)),
                loss=_plain(section.loss),
                metrics=_metrics(section.metrics) or None,
                loss_weights=_plain(section.loss_weights),
            )
        except (ValueError, TypeError) as error:
            raise ConfigError(f"The section compile does not fit Keras: {_short(error)}.") from error
    return model


def _check_names(section: CompileConfig) -> None:
    """Looks up losses and metrics now: Keras would do it in the first step, and raise an error of its own."""
    for key, value, get in (
        ("compile.loss", section.loss, keras.losses.get),
        ("compile.metrics", _metrics(section.metrics), keras.metrics.get),
    ):
        for name in keras.tree.flatten(_plain(value)):
            if isinstance(name, str) and name not in _RESOLVED_BY_SHAPE:
                try:
                    get(name)
                except ValueError as error:
                    raise ConfigError(f"{key}: Keras knows no {name!r}. Expected a name of Keras's own.") from error


def _call(function: Callable[..., Any], args: Mapping[str, Any], key: str) -> Any:
    """Calls with a config's arguments. What the user's own code raises is left as it is."""
    try:
        return function(**args)
    except (TypeError, ValueError) as error:
        if is_raised_by_user(error):
            raise
        raise ConfigError(
            f"{key} does not fit {function.__module__}.{function.__qualname__}: {_short(error)}. Received: {dict(args)}"
        ) from error


def _short(error: Exception) -> str:
    """An error's text without its full stop; of a failed deserialization only the reason."""
    return str(error).rpartition("Exception encountered: ")[2].strip().rstrip(".")


def _named(value: Any) -> Any:
    """A Keras identifier: a name, or `{name: adam, learning_rate: 0.1}` as Keras writes a config."""
    if isinstance(value, str):
        return value
    arguments = dict(value)
    return {"class_name": arguments.pop("name"), "config": arguments}


def _metrics(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: [_metric(item) for item in _as_list(items)] for key, items in value.items()}
    return [_metric(item) for item in value]


def _metric(value: Any) -> Any:
    return value if isinstance(value, str) else keras.metrics.get(_named(value))


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str | Mapping) else list(value)


def _plain(value: Any) -> Any:
    """A list or dict of Keras's own kind from the config's read-only one."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value
