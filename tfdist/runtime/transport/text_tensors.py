"""Tensors of texts as bytes that can be sent: the size of each element, and all elements one after another."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_SIZE = np.dtype("<i8")


def to_bytes(texts: tf.Tensor) -> bytes:
    """The elements of an eager tensor of dtype string, of any shape, whatever bytes they have."""
    elements = tf.reshape(texts, [-1]).numpy().tolist()
    return np.array([len(element) for element in elements], _SIZE).tobytes() + b"".join(elements)


def from_bytes(content: bytes, shape: tf.TensorShape) -> tf.Tensor:
    """The tensor of dtype string and a shape whose `to_bytes` are `content`."""
    count = shape.num_elements()
    sizes = np.frombuffer(content, _SIZE, count)
    ends = count * _SIZE.itemsize + np.cumsum(sizes)
    elements = [content[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return tf.reshape(tf.constant(elements, tf.string, [count]), shape)
