"""A model that was saved whole, as the model of a config."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import keras


def from_file(file: str, modules: Sequence[str] = ()) -> keras.Model:
    """The model of a `.keras` file with its weights, to be compiled as a config says: to fine-tune it.

    Every worker reads the file. Where the config has `model.weights`, these take the place of the file's.

    Args:
        file: Its path, the same on every host.
        modules: What is imported first, as what registers the layers of the file
            (`keras.saving.register_keras_serializable`).

    Returns:
        The model, not compiled.

    Raises:
        ValueError: There is no such file, or Keras cannot make the model of it.

    Example:
        model: {build: tfdist.models.from_file, args: {file: /models/digits.keras}}
    """
    for module in modules:
        importlib.import_module(module)
    return keras.models.load_model(file, compile=False)
