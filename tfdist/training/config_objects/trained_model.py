"""A trained model: a `.keras` file, or weights for the model that a config builds; the same on every worker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from tfdist.config import RunConfig
from tfdist.errors import DataError, TfdistError, UsageError
from tfdist.training.config_objects.model_builder import build_model
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
