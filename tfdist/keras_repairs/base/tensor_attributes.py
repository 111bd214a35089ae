"""Keeps what Keras finds behind a tensor where the rows of the tensor are gathered, joined or cut.

Keras hangs two things on tensors: the mask of a tensor, `_keras_mask`, and the logits that a softmax or sigmoid was
taken of, `_keras_logits`, from which it computes a crossentropy. Of probabilities it cuts off what is close to 0 and 1,
and it takes them for logits where a loss says so. A softmax of TensorFlow's it knows by its operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src import backend

ON_TENSORS = ("_keras_mask", "_keras_logits")
"""The attributes that Keras attaches to a tensor that has a value."""

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {"Softmax": tf.nn.softmax, "Sigmoid": tf.nn.sigmoid}
"""The operations whose inputs Keras takes for logits."""


def changed(tensor: tf.Tensor, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """`change(tensor)`, behind which Keras finds the mask and the logits, changed alike.

    What a graph computes from logits is computed anew from those that are changed, which are sent in its place.

    Args:
        tensor: A dense tensor.
        change: Takes or gathers rows, of logits of the same shape and dtype or of a mask as well.
    """
    noted, behind = getattr(tensor, "_keras_logits", None), _logits_of_operation(tensor)
    if behind is not None and (noted is None or noted is behind):
        logits = change(behind)
        result = ACTIVATIONS[tensor.op.type](logits)
    else:
        logits = None if noted is None else change(noted)
        result = change(tensor)
    if noted is not None:
        result._keras_logits = logits
    mask = backend.get_keras_mask(tensor)
    if mask is not None:
        backend.set_keras_mask(result, change(mask))
    return result


def _logits_of_operation(tensor: Any) -> tf.Tensor | None:
    if not tf.is_symbolic_tensor(tensor) or tensor.op.type not in ACTIVATIONS:
        return None
    return tensor.op.inputs[0]
