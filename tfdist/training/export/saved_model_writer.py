"""Writes a SavedModel, from which LiteRT and OpenVINO convert as well."""

from __future__ import annotations

from pathlib import Path

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.text import safe_str
from tfdist.training.export.serving_function import ServingFunction

ENDPOINT = "serve"
"""Keras's name of the signature, which is TensorFlow Serving's `serving_default` as well."""


def write_saved_model(serving: ServingFunction, folder: Path) -> None:
    """Writes the folder of a SavedModel.

    Raises:
        UnsupportedError: TensorFlow cannot write the model.
    """
    archive = keras.export.ExportArchive()
    archive.track(serving.model)
    try:
        archive.add_endpoint(ENDPOINT, serving.__call__, input_signature=serving.specs)
        archive.write_out(str(folder), verbose=False)
    except (ValueError, TypeError, AssertionError, tf.errors.OpError) as error:
        raise UnsupportedError(
            f"TensorFlow does not write the model as a SavedModel: {' '.join(safe_str(error).split())} Expected that "
            "its layers hold their variables and tables as attributes."
        ) from error
