"""Tests of which optimizers can be cut, and of what a worker takes of sparse gradients."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import kind_of
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_container
from tfdist.runtime.transport.shard_collectives import rows_of_shard
from tfdist.sharding import cut
from tfdist.sharding.cut import Cut

BASE = keras.optimizers.Optimizer
WHOLE = {"Lamb", "Adafactor", "Muon"}
OF_KERAS = sorted(
    name
    for name, kind in vars(keras.optimizers).items()
    if isinstance(kind, type) and issubclass(kind, BASE) and kind is not BASE
    # They leave updates to others inside of them.
    and name not in ("LossScaleOptimizer", "MultiOptimizer")
)


class Renamed(keras.optimizers.Adam):
    """Changes nothing of an update."""


class Signed(keras.optimizers.Adam):
    """Its update may look at whole variables, for all that is known."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(tf.sign(gradient), variable, learning_rate)


class OfAll(keras.optimizers.SGD):
    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        super()._backend_update_step(grads, trainable_variables, learning_rate)


@pytest.mark.parametrize("name", OF_KERAS)
def test_every_optimizer_of_keras_has_a_kind(name: str) -> None:
    optimizer = getattr(keras.optimizers, name)()
    assert not is_container(optimizer)
    assert kind_of(optimizer) == ("variables" if name in WHOLE else "elements")


def test_optimizers_of_ones_own() -> None:
    assert kind_of(Renamed()) == "elements"
    assert kind_of(Signed()) == "variables"
    with pytest.raises(UnsupportedError, match="cannot cut the optimizer OfAll .* overrides _backend_update_step"):
        kind_of(OfAll())
    assert is_container(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))


@pytest.mark.parametrize(
    "found", [cut.evenly((64, 3), 2), cut.evenly((7, 3), 3), cut.evenly((5, 2), 8), cut.uncut((7, 3), 1, 2)]
)
def test_parts_of_sparse_gradients_are_those_of_dense_ones(found: Cut) -> None:
    generator = np.random.default_rng(3)
    # Rows that come twice stay two slices, as optimizers square slice by slice.
    indices = generator.integers(0, found.shape[0], 9)
    values = generator.normal(size=(9, *found.shape[1:]))
    slices = tf.IndexedSlices(values, indices, found.shape)
    whole = tf.convert_to_tensor(slices).numpy().reshape(-1)
    parts = [rows_of_shard(slices, found, worker) for worker in range(found.workers)]
    dense = [tf.convert_to_tensor(part).numpy() for part in parts]
    assert [part.shape for part in dense] == [found.shard_shape(worker) for worker in range(found.workers)]
    np.testing.assert_array_equal(np.concatenate([part.reshape(-1) for part in dense]), whole)
    squares = sum(float(tf.reduce_sum(part.values**2)) for part in parts)
    assert squares == pytest.approx(float(np.sum(values**2)))
