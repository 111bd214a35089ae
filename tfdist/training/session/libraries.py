"""Whether the libraries in this process are those that tfdist trains with."""

from __future__ import annotations

import logging

import keras
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.runtime.tested_versions import TENSORFLOW

_log = logging.getLogger("tfdist")


def check_libraries() -> None:
    """Checks Keras's backend, and warns of a TensorFlow that was not tested.

    Raises:
        UsageError: Keras runs on another backend, whose `fit` would train on each worker for itself.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"Keras runs on {backend}. Expected tensorflow, on which tfdist trains. Set the backend in "
            "~/.keras/keras.json to it, and leave KERAS_BACKEND as `tfdist train` sets it."
        )
    if not TENSORFLOW.includes(tf.__version__):
        _log.warning("%s. Install a tested one: pip install '%s'.", TENSORFLOW.untested(tf.__version__), TENSORFLOW)
