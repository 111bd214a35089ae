"""The work of one worker alone, on one device, while a strategy of several is in force."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf


@contextlib.contextmanager
def outside_strategy() -> Iterator[tf.distribute.Strategy]:
    """Inside, TensorFlow's default strategy is in force: models are made, saved and called as with one device.

    Under the one of several workers each variable, and each file that is loaded, waits for the others.

    Yields:
        The default strategy.
    """
    strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
    tf.distribute.experimental_set_strategy(None)
    try:
        yield tf.distribute.get_strategy()
    finally:
        tf.distribute.experimental_set_strategy(strategy)
