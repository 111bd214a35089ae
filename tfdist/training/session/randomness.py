"""One random state on every worker, for whatever a script does not seed itself."""

from __future__ import annotations

import random

import keras
import numpy as np


def seed_all(seed: int) -> None:
    """Seeds Python, NumPy, TensorFlow and Keras, and what NumPy's generators take from the system when unseeded.

    `np.random.default_rng()` without a seed asks the operating system for one, which every worker would answer
    differently: two workers would then split one dataset in two ways. Here it gets the next of one sequence.

    Args:
        seed: 0 to 2**32 - 1, the same on every worker.
    """
    keras.utils.set_random_seed(seed)
    np.random.bit_generator.randbits = random.Random(seed).getrandbits  # type: ignore[attr-defined]
