"""Repair of `keras.backend.clear_session()`, which clears the strategy in force too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import tensorflow as tf

Function = Callable[..., Any]


def clear_session(original: Function) -> Function:
    """Repairs `keras.backend.clear_session`: under a strategy TensorFlow's default graph stays.

    Keras replaces that graph, in which TensorFlow keeps the strategy in force even when it executes eagerly. A model
    built afterwards would have no strategy: every worker would silently train its own, on all data. Eager execution
    puts nothing else into the graph.
    """

    def repaired(*args: Any, **kwargs: Any) -> Any:
        if not tf.distribute.has_strategy():
            return original(*args, **kwargs)
        with mock.patch.object(tf.compat.v1, "reset_default_graph"):
            return original(*args, **kwargs)

    return repaired
