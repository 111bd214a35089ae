"""Builds and compiles the model of a config's sections `model` and `compile`, also with a checkpoint's weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import keras
import tensorflow as tf

from tfdist.config import CompileConfig, ModelConfig, RunConfig, resolve_callable
from tfdist.config.dotted_path import search_in
from tfdist.config.field_errors import FieldError, dotted
from tfdist.config.load import build_config
from tfdist.config.yaml_document import read_document
from tfdist.errors import ConfigError, RunDirError, UsageError
from tfdist.rundir import RunDir
from tfdist.text import safe_str
from tfdist.training.config_objects.object_maker import (
    Make,
    call,
    check_outputs,
    make_for_outputs,
    make_loss,
    make_metric,
    make_optimizer,
)
from tfdist.training.config_objects.problems import Problems


def build_model(config: RunConfig, strategy: tf.distribute.Strategy) -> keras.Model:
    """Builds and compiles the model that a config describes, under `strategy`.

    Raises:
        ConfigError: The dotted path, the arguments or a name in the section `compile` does not fit; the text has all
            that does not.
    """
    problems = Problems()
    with strategy.scope():
        model = make_model(values_of(config), problems)
    problems.raise_any()
    assert model is not None, "else there is a problem"
    return model


def values_of(config: RunConfig) -> dict[str, Any]:
    """The sections of a config that describe its objects, and their values, by dotted key."""
    sections = {"model": config.model, "compile": config.compile, "data": config.data, "fit": config.fit}
    entries = {dotted(key, name): getattr(section, name) for key, section in sections.items() for name in vars(section)}
    return {**sections, **entries}


def make_model(values: Mapping[str, Any], problems: Problems) -> keras.Model | None:
    """Builds and compiles the model, and goes on after a mistake; None where it cannot be built.

    Args:
        values: The values of a config that are valid, by dotted key.
        problems: Takes what is wrong.
    """
    before = len(problems.found)
    model = None
    with problems.collecting():
        model = _built(values["model"]) if "model" in values else None
    arguments = _compile_arguments(values, problems)
    if model is not None and "compile" in values:
        _check_outputs(model, values["compile"], problems)
        if len(problems.found) == before:
            with problems.collecting():
                _compile(model, arguments)
    return model


def _check_outputs(model: keras.Model, section: CompileConfig, problems: Problems) -> None:
    outputs = getattr(model, "output_names", None)
    if outputs is None:
        return
    for name in ("loss", "metrics", "weighted_metrics", "loss_weights"):
        value = getattr(section, name)
        if value is not None and ("metrics" not in name or isinstance(value, Mapping)):
            with problems.collecting():
                check_outputs(value, f"compile.{name}", outputs)


def _compile(model: keras.Model, arguments: Mapping[str, Any]) -> None:
    try:
        model.compile(**arguments)
    except (ValueError, TypeError) as error:
        raise FieldError("compile", f"Keras refuses it: {' '.join(safe_str(error).split()).rstrip('.')}") from error


def _built(section: ModelConfig) -> keras.Model:
    model = call(resolve_callable(section.build, "model.build"), section.args, "model.args")
    if not isinstance(model, keras.Model):
        raise FieldError(
            "model.build",
            f"expected a function that returns a keras.Model. Received: {section.build}, which returned "
            f"{type(model).__name__}",
        )
    return model


def _compile_arguments(values: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The arguments of `Model.compile` that the config has, as Keras takes them."""

    def made(name: str, make: Make) -> Any:
        key = f"compile.{name}"
        return make_for_outputs(values[key], key, make, problems) if values.get(key) else None

    return {
        "optimizer": made("optimizer", make_optimizer),
        "loss": made("loss", make_loss),
        "metrics": _for_each_output(made("metrics", make_metric)),
        "weighted_metrics": _for_each_output(made("weighted_metrics", make_metric)),
        "loss_weights": _plain(values.get("compile.loss_weights")),
        "jit_compile": values.get("compile.jit_compile", "auto"),
        "steps_per_execution": values.get("compile.steps_per_execution", 1),
    }


def _for_each_output(metrics: Any) -> Any:
    if isinstance(metrics, dict):
        return {name: entry if isinstance(entry, list) else [entry] for name, entry in metrics.items()}
    return metrics


def _plain(value: Any) -> Any:
    """A list or dict of Keras's own kind from the config's read-only one."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


def load_model(run: RunDir, weights: Path | BinaryIO) -> keras.Model:
    """Builds and compiles the run's model, and loads weights and the optimizer's state into it.

    Args:
        run: A run from a config.
        weights: A checkpoint's file of weights, or one that `opened_weights` has opened.

    Raises:
        UsageError: The run is a script's, or its model has no variables before it has seen data.
        ConfigError: The config's model cannot be built here.
        RunDirError: The config cannot be read.
    """
    config = _config_of(run)
    # The run may still be using the GPUs. As in a worker, a dotted path is looked for in the working directory.
    tf.config.set_visible_devices([], "GPU")
    search_in(os.getcwd())
    keras.config.set_dtype_policy(config.precision)
    model = build_model(config, tf.distribute.get_strategy())
    if not model.built:
        raise UsageError(
            f"The model of {config.model.build} has no variables before it has seen data, so that none can be loaded "
            "into it here. Expected one with an Input. Give a DEST that ends in .weights.h5, and load that after the "
            "model was called once."
        )
    model.optimizer.build(model.trainable_variables)
    model.load_weights(weights)
    return model


def _config_of(run: RunDir) -> RunConfig:
    try:
        document = read_document(run.config_file)
    except ConfigError as error:
        raise RunDirError(f"The config of the run {run} cannot be read: {error}") from error
    if "model" not in document.content:
        raise UsageError(
            f"What builds the model of {run} is a script, and not written in its config. Expected a run from a config. "
            "Give a DEST that ends in .weights.h5, and load it into the model that the script builds."
        )
    return build_config(document)
