"""A trained model: a `.keras` file, or weights for the model that a config builds; the same on every worker."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.config.dotted_path import search_in
from tfdist.data.pipeline import Batches
from tfdist.errors import DataError, TfdistError, UsageError
from tfdist.keras_repairs.files.training_state import build
from tfdist.training.config_objects.model_builder import build_model
from tfdist.training.inference_request import InferenceRequest
from tfdist.training.weights_file import copy_of_chiefs, load_weights, one_line


@dataclass(frozen=True)
class TrainedModel:
    """The location of a trained model.

    Attributes:
        file: A `.keras` file, or a checkpoint's file of weights; on the chief's machine, or a URL.
        shown: The model in words.
        config: What builds the model; None where the file has all that is needed.
        import_by: How a user lets a module be imported that registers layers, for errors.
        advice: What to do where the weights cannot be loaded, in a sentence.
    """

    file: str
    shown: str
    config: RunConfig | None = None
    import_by: str = "with --import MODULE"
    advice: str = "Let its code be that of the training, or choose another with --checkpoint."


def load_trained(
    trained: TrainedModel,
    strategy: tf.distribute.Strategy,
    build: Callable[[keras.Model], None],
    *,
    compiles: bool,
) -> keras.Model:
    """The model, under a strategy; all workers call it together.

    Args:
        trained: Which one.
        strategy: The strategy in force.
        build: Builds a model that has no variables yet, as one without an Input.
        compiles: Whether a `.keras` file gives the loss and the metrics that the model was saved with, too.

    Raises:
        UsageError: The model cannot be built here.
        DataError: The file is damaged.
        RunDirError: The weights are of another model than the config's.
    """
    with copy_of_chiefs(trained.file, strategy) as file:
        if trained.config is None:
            assert isinstance(file, Path), "a `.keras` file lies in no parts"
            return _whole_model(trained, file, strategy, compiles=compiles)
        with _precision(trained.config):
            model = build_model(trained.config, strategy)
            if not model.built:
                build(model)
        load_weights(model, file, trained.shown, None, advice=trained.advice)
        return model


@contextlib.contextmanager
def _precision(config: RunConfig) -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(config.precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _whole_model(
    trained: TrainedModel, file: Path, strategy: tf.distribute.Strategy, *, compiles: bool
) -> keras.Model:
    try:
        with strategy.scope():
            return keras.models.load_model(file, compile=compiles)
    except TfdistError:
        raise
    except (OSError, KeyError) as error:
        raise DataError(
            f"{trained.file} cannot be read as a model: {one_line(error)}. Expected a whole file that "
            "model.save(...) has written with the ending .keras."
        ) from error
    except (TypeError, ValueError, ImportError, AttributeError) as error:
        raise UsageError(
            f"Keras cannot make the model of {trained.file}: {_cause(error)} Expected that all of its layers are "
            f"known. Import the module that registers them (keras.saving.register_keras_serializable) "
            f"{trained.import_by}."
        ) from error


def _cause(error: BaseException) -> str:
    """Returns why a model cannot be made, without the whole config of it that Keras puts around that."""
    return one_line(error).rpartition("Exception encountered: ")[2].partition(" Full object config")[0]


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
