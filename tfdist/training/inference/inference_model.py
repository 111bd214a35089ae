"""The model of an inference: read by the chief alone, and the same on every worker."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.dotted_path import search_in
from tfdist.data.pipeline import Batches
from tfdist.errors import DataError, TfdistError, UsageError
from tfdist.training.config_objects.model_builder import build_model
from tfdist.training.inference.inference_request import InferenceRequest
from tfdist.training.weights_file import copy_of_chiefs, load_weights, one_line

_ADVICE = "Let its code be that of the training, or choose another with --checkpoint."


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
    with copy_of_chiefs(request.model, strategy) as file:
        if request.is_whole_model:
            model = _whole_model(request, file, strategy)
        else:
            assert config is not None, "weights alone come with the config that builds their model"
            keras.config.set_dtype_policy(config.precision)
            model = build_model(config, strategy)
            load_weights(model, file, request.shown_model, batches, advice=_ADVICE)
    if request.verb != "predict" and not model.compiled:
        raise UsageError(
            f"{request.shown_model} was saved without a loss and metrics, so that nothing can be evaluated. Expected a "
            "model that was compiled before it was saved. Compile it and save it again, or evaluate its run directory."
        )
    return model


def _whole_model(request: InferenceRequest, file: Path, strategy: tf.distribute.Strategy) -> keras.Model:
    try:
        with strategy.scope():
            return keras.models.load_model(file, compile=request.verb != "predict")
    except TfdistError:
        raise
    except (OSError, KeyError) as error:
        raise DataError(
            f"{request.model} cannot be read as a model: {one_line(error)}. Expected a whole file that "
            "model.save(...) has written with the ending .keras."
        ) from error
    except (TypeError, ValueError, ImportError, AttributeError) as error:
        raise UsageError(
            f"Keras cannot make the model of {request.model}: {_cause(error)} Expected that all of its layers are "
            "known. Import the module that registers them (keras.saving.register_keras_serializable) with --import "
            "MODULE."
        ) from error


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"--import {module}: it cannot be imported: {error}. Expected the dotted name of a module that is "
            "installed, or in the working directory."
        ) from error


def _cause(error: BaseException) -> str:
    """Why a model cannot be made, without the whole config of it that Keras puts around that."""
    return one_line(error).rpartition("Exception encountered: ")[2].partition(" Full object config")[0]
