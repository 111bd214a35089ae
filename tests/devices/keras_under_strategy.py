"""A plugin for pytest: Keras's own tests under the strategy of two logical CPUs, with tfdist's repairs.

Without tfdist, to see which of them fail here anyway, with `--plain-keras`.
"""

from __future__ import annotations

import importlib.util
import sys
from unittest import mock

import pytest
import tensorflow as tf


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plain-keras", action="store_true", help="Under no strategy, and without tfdist.")


def pytest_configure(config: pytest.Config) -> None:
    if importlib.util.find_spec("jax") is None:
        # Tests of all backends import it, and use it with its own.
        sys.modules["jax"] = mock.MagicMock()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    if config.getoption("--plain-keras"):
        return
    from tfdist import keras_repairs
    from tfdist.runtime.strategy import choose, make, use_everywhere

    devices = ["/device:CPU:0", "/device:CPU:1"]
    strategy, _ = make(choose(devices, workers=1, logical=True), devices)
    use_everywhere(strategy)
    keras_repairs.install()
