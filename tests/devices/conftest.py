"""One process with 3 logical CPUs, which TensorFlow accepts only before it starts its devices: at import, so to say."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.plain_graphs import leave_graphs_plain
from tfdist import keras_repairs

LOGICAL_CPUS = 3

(_cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(_cpu, [tf.config.LogicalDeviceConfiguration()] * LOGICAL_CPUS)

leave_graphs_plain()


@pytest.fixture(params=[1, 2, slow(3)], ids=lambda replicas: f"replicas={replicas}")
def strategy(request: pytest.FixtureRequest) -> tf.distribute.Strategy:
    """TensorFlow's default strategy for one replica, MirroredStrategy over logical CPUs for two and three."""
    if request.param == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"CPU:{device}" for device in range(request.param)])


@pytest.fixture(scope="module", autouse=True)
def _ended_iterators() -> Iterator[None]:
    """Ends the iterators that a file's tests have left in cycles: the older they are, the longer their end waits for
    TensorFlow's tuner, and whichever test comes to it. What is left is not looked through again.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def repaired() -> None:
    """Keras is right under a strategy."""
    keras_repairs.install()


@pytest.fixture
def float64() -> Iterator[None]:
    """Keras computes in float64, in which rounding is far below any fault of a method."""
    before = keras.backend.floatx()
    keras.backend.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.backend.set_floatx(before)
    keras.config.set_dtype_policy(before)
