"""The model of an inference: read by the chief alone, and the same on every worker."""

from __future__ import annotations

import contextlib
import importlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.checkpoint.temporary_folder import temporary_folder
from tfdist.config import RunConfig
from tfdist.config.dotted_path import search_in
from tfdist.data.pipeline import Batches
from tfdist.errors import DataError, RunDirError, TfdistError, UsageError
from tfdist.keras_repairs.files.training_state import build
from tfdist.runtime.transport.chief_broadcast import file_from_chief
from tfdist.runtime.workers import worker_count
from tfdist.training.config_objects.model_builder import build_model
from tfdist.training.inference.inference_request import InferenceRequest
from tfdist.url_schemes import is_url


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
    with _copy_of(request.model, strategy) as file:
        if request.is_whole_model:
            model = _whole_model(request, file, strategy)
        else:
            assert config is not None, "weights alone come with the config that builds their model"
            keras.config.set_dtype_policy(config.precision)
            model = build_model(config, strategy)
            _load_weights(model, file, request.shown_model, batches)
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
            f"{request.model} cannot be read as a model: {_one_line(error)}. Expected a whole file that "
            "model.save(...) has written with the ending .keras."
        ) from error
    except (TypeError, ValueError, ImportError, AttributeError) as error:
        raise UsageError(
            f"Keras cannot make the model of {request.model}: {_cause(error)} Expected that all of its layers are "
            "known. Import the module that registers them (keras.saving.register_keras_serializable) with --import "
            "MODULE."
        ) from error


def _load_weights(model: keras.Model, file: Path, shown: str, batches: Batches) -> None:
    if not model.built:
        build(model, batches)
    try:
        with warnings.catch_warnings():
            # An inference needs no state of the optimizer, which would take twice the memory of the weights.
            warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
            model.load_weights(file)
    except (ValueError, KeyError) as error:
        raise RunDirError(
            f"The weights of {shown} are of another model than the config of the run builds: {_one_line(error)} "
            "Expected the code that the run was trained with."
        ) from error
    except OSError as error:
        raise DataError(
            f"The weights of {shown} cannot be read: {_one_line(error)} Choose another with --checkpoint."
        ) from error


@contextlib.contextmanager
def _copy_of(source: str, strategy: tf.distribute.Strategy) -> Iterator[Path]:
    """A file of the chief's machine, or a URL, on this machine for as long as the block runs."""
    if worker_count(strategy) == 1 and not is_url(source):
        yield Path(source)
        return
    with temporary_folder() as folder:
        # Keras chooses the format by the ending.
        copy = folder / os.path.basename(source)
        if not file_from_chief(source, copy, strategy):
            raise DataError(f"{source} is not there any more. Expected that nothing removes it meanwhile.")
        yield copy


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
    return _one_line(error).rpartition("Exception encountered: ")[2].partition(" Full object config")[0]


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."
