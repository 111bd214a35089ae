"""Loads the model of a checkpoint, built from its run's config, to export it as one Keras file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.dotted_path import search_in
from tfdist.config.load import build_config
from tfdist.config.yaml_document import read_document
from tfdist.errors import ConfigError, RunDirError, UsageError
from tfdist.rundir import RunDir
from tfdist.training.config_objects.model_builder import build_model


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
