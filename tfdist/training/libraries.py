"""Libraries that compute in this process: their versions, a check of them, and their seeds."""

from __future__ import annotations

import platform
import random

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.training.legacy_keras import refuse_legacy_keras
from tfdist.versions import VERSION


def versions() -> dict[str, str]:
    """Package -> its version, and `python` -> the interpreter's."""
    # The libraries' own word: a build of TensorFlow may be installed under another name, tfdist not at all.
    return {
        "python": platform.python_version(),
        "tfdist": VERSION,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def check_libraries() -> None:
    """Checks Keras's backend, and refuses to train with Keras 2.

    Raises:
        UsageError: Keras runs on another backend, whose `fit` would train on each worker separately.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"Keras runs on {backend}. Expected tensorflow, on which tfdist trains. Set the backend in "
            "~/.keras/keras.json to it, and leave KERAS_BACKEND as `tfdist train` sets it."
        )
    refuse_legacy_keras()


def seed_all(seed: int) -> None:
    """Seeds Python, NumPy, TensorFlow and Keras, and the entropy of NumPy generators that are made without a seed.

    `np.random.default_rng()` without a seed takes its entropy from the operating system, which gives every worker
    different bits: two workers would split one dataset in two ways. From now on it takes the next bits of one sequence.

    Args:
        seed: 0 to 2**32 - 1, the same on every worker.
    """
    keras.utils.set_random_seed(seed)
    np.random.bit_generator.randbits = random.Random(seed).getrandbits  # type: ignore[attr-defined]
