"""The model of an inference: read by the chief alone, and the same on every worker."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.dotted_path import search_in
from tfdist.data.pipeline import Batches
from tfdist.errors import UsageError
from tfdist.keras_repairs.files.training_state import build
from tfdist.training.config_objects.trained_model import TrainedModel, load_trained
from tfdist.training.requests.inference_request import InferenceRequest


def load_model(
    request: InferenceRequest, config: RunConfig | None, batches: Batches, strategy: tf.distribute.Strategy
) -> keras.Model:
    """The model, under a strategy; all workers call it together.

    Args:
        request: Which one.
        config: What builds it, where the file has weights alone.
        batches: What it is to take, for a model that is built by its first batch.
        strategy: The strategy in force.

    Raises:
        UsageError: The model cannot be built here, or was saved without what an evaluation needs.
        DataError: The file is damaged.
        RunDirError: The weights are of another model than the config's.
    """
    search_in(os.getcwd())
    for module in request.modules:
        _import(module)
    if config is not None:
        # Of layers that are made while the model is built, too.
        keras.config.set_dtype_policy(config.precision)
    trained = TrainedModel(request.model, request.shown_model, None if request.is_whole_model else config)
    build_by_data = functools.partial(build, dataset=batches)
    model = load_trained(trained, strategy, build_by_data, compiles=request.verb != "predict")
    if request.verb != "predict" and not model.compiled:
        raise UsageError(
            f"{request.shown_model} was saved without a loss and metrics, so that nothing can be evaluated. Expected a "
            "model that was compiled before it was saved. Compile it and save it again, or evaluate its run directory."
        )
    return model


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"--import {module}: it cannot be imported: {error}. Expected the dotted name of a module that is "
            "installed, or in the working directory."
        ) from error
