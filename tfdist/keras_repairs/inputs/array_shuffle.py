"""The order in which `fit(x, y, shuffle=True)` visits arrays, where the script set no seed of its own.

Unseeded, every worker would draw its own permutation, and samples would be read twice or never. Seeded, Keras draws
the same permutation in every epoch, because each epoch's iterator starts its random op anew. With a seed that tfdist
chose, the permutation is the same on every worker and another one in every epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.runtime.batches.dataset_description import EpochCounter

Function = Callable[..., Any]
_EPOCHS: AttachedValue[EpochCounter] = AttachedValue("epochs")


def array_dataset(original: Function, imposed_seed: int | None) -> Function:
    """Repairs `ArrayDataAdapter.get_tf_dataset`.

    Args:
        original: The method.
        imposed_seed: TensorFlow's global seed as tfdist set it; None when it set none. A script that sets its own
            keeps Keras's order to the letter.
    """
    datasets = itertools.count()

    def repaired(self: Any) -> tf.data.Dataset:
        if not self._shuffle or self._shuffle == "batch" or imposed_seed is None:
            return original(self)
        if context.global_seed() != imposed_seed:
            return original(self)
        # Counted for each dataset, not over all: an iterator that is opened and never read must not shift the next fit.
        epochs = EpochCounter()
        _EPOCHS.set(self, epochs)
        with mock.patch.object(tf.random, "shuffle", _epoch_shuffle(imposed_seed, next(datasets), epochs.part())):
            return original(self)

    return repaired


def epochs_of(adapter: Any) -> EpochCounter | None:
    """Counts the epochs of the last dataset of an adapter of arrays; None where Keras's order stands."""
    return _EPOCHS.get(adapter)


def _epoch_shuffle(seed: int, dataset: int, next_epoch: Callable[[], int]) -> Function:
    """A stand-in for `tf.random.shuffle` that draws another permutation in every epoch of one dataset."""

    def draw() -> np.ndarray:
        state = np.random.SeedSequence((seed, dataset, next_epoch())).generate_state(2, np.uint32)
        return state.astype(np.int64)

    def shuffle(value: tf.Tensor, seed: int | None = None, name: str | None = None) -> tf.Tensor:
        key = tf.ensure_shape(tf.numpy_function(draw, [], tf.int64), (2,))
        return tf.random.experimental.stateless_shuffle(value, key)

    return shuffle
