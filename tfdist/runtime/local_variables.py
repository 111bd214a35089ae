"""Variables of one worker alone, while a strategy of several workers is in force."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import default_variable_creator_v2


@contextlib.contextmanager
def local_variables() -> Iterator[None]:
    """Variables made inside are plain ones, which no strategy distributes.

    A distributed one asks the other workers for its first value, so that a worker that makes a variable alone would
    wait for them. TensorFlow has no public name for the creator of plain ones.
    """

    def creator(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        return default_variable_creator_v2(None, **kwargs)

    with tf.variable_creator_scope(creator):
        yield
