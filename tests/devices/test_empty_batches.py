"""Convolutions and maxima of a replica that has no sample: of the right shape, and so are their gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensorflow as tf
from keras import ops

from tests.devices.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")

KERNEL = tf.ones((3, 3, 2, 5))
OPERATIONS = {
    "conv": lambda x: ops.conv(x, KERNEL, strides=2),
    "conv_transpose": lambda x: ops.conv_transpose(x, tf.ones((3, 3, 5, 2)), strides=2),
    "depthwise_conv": lambda x: ops.depthwise_conv(x, KERNEL),
    "separable_conv": lambda x: ops.separable_conv(x, KERNEL, tf.ones((1, 1, 10, 4))),
    "max_pool": lambda x: ops.max_pool(x, 2),
    "adaptive_max_pool": lambda x: ops.adaptive_max_pool(x, 3),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_sample(name: str) -> None:
    images = tf.TensorSpec((None, 8, 8, 2))

    @tf.function(input_signature=[images])
    def outputs(x: tf.Tensor) -> tf.Tensor:
        return local(lambda: OPERATIONS[name](x))

    assert outputs(tf.ones((0, 8, 8, 2))).shape[1:] == outputs(tf.ones((3, 8, 8, 2))).shape[1:]

    @tf.function(input_signature=[images])
    def gradients(x: tf.Tensor) -> tf.Tensor:
        return local(lambda: tf.gradients(OPERATIONS[name](x), x)[0])

    # Not before the shape is right: of a maximum of the wrong one the gradient ends the process.
    assert gradients(tf.ones((0, 8, 8, 2))).shape == (0, 8, 8, 2)


EAGERLY = {
    **OPERATIONS,
    "add": lambda x: ops.add(x, x[..., :1, :1, :]),
    "max": lambda x: ops.max(x, axis=(1, 2)),
    "min": lambda x: ops.min(x, axis=-1, keepdims=True),
}


@pytest.mark.parametrize("name", EAGERLY)
def test_no_sample_eagerly(name: str) -> None:
    """The result depends on the input: layers before it whose gradients are collectives must all run them."""

    def outputs(samples: int) -> tf.Tensor:
        x = tf.ones((samples, 8, 8, 2))
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = EAGERLY[name](x)
        assert tape.gradient(result, x).shape == x.shape
        return result

    empty = local(lambda: outputs(0))
    assert empty.shape == [0, *local(lambda: outputs(3)).shape[1:]]


@pytest.mark.parametrize("shape", [(0, 5), (0, 1, 5), (0, 0)])
def test_sums_of_no_row(shape: tuple[int, ...]) -> None:
    """Of shapes that Keras could take for a bias."""
    one = tf.ones([max(size, 1) for size in shape])
    assert local(lambda: ops.add(one, tf.ones(shape))).shape == shape
    assert local(lambda: ops.add(tf.ones(shape), tf.ones(shape))).shape == shape


def local(compute: Callable[[], tf.Tensor]) -> tf.Tensor:
    """What the first of two replicas computes."""
    return mirrored(2).experimental_local_results(mirrored(2).run(compute))[0]
