"""`keras.backend.clear_session()` must not clear the strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import tensorflow as tf

Function = Callable[..., Any]


def clear_session(original: Function) -> Function:
    """Repairs `keras.backend.clear_session`: under a strategy TensorFlow's default graph stays.

    Keras replaces that graph, in which TensorFlow keeps the strategy in force, also when it executes eagerly. Whatever
    was built afterwards would know of no strategy: every worker would train a model of its own, on all data, without
    a word. Eager execution puts nothing else into it.
    """

    def repaired(*args: Any, **kwargs: Any) -> Any:
        if not tf.distribute.has_strategy():
            return original(*args, **kwargs)
        with mock.patch.object(tf.compat.v1, "reset_default_graph"):
            return original(*args, **kwargs)

    return repaired
