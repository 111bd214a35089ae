"""Gradients of convolutions of single pixels with strides, of odd rows, where TensorFlow may end the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.usefixtures("repaired")

Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

IMAGES, LINES = (5, 16, 16, 3), (5, 256, 3)


def gradients(convolution: Convolution, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(1)
    x = tf.constant(generator.normal(size=shape), tf.float32)
    kernel = tf.constant(generator.normal(size=(*(1 for _ in shape[2:]), 3, 16)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        loss = tf.reduce_sum(convolution(x, kernel) ** 2)
    return tape.gradient(loss, [x, kernel])


def of_pixels(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The same by a product of matrices."""
    steps = (slice(None), *(slice(None, None, 2) for _ in x.shape[1:-1]))
    return tf.einsum("...i,io->...o", x[steps], tf.reshape(kernel, (3, 16)))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("convolution", "shape"),
    [
        (lambda x, kernel: tf.nn.conv2d(x, kernel, 2, "VALID"), IMAGES),
        (lambda x, kernel: tf.nn.conv2d(x, kernel, 2, "SAME"), IMAGES),
        (lambda x, kernel: tf.nn.convolution(x, kernel, 2, "SAME"), (5, 15, 15, 3)),
        (lambda x, kernel: tf.nn.conv1d(x, kernel, 2, "VALID"), LINES),
    ],
)
def test_gradients_are_those_of_a_product(convolution: Convolution, shape: tuple[int, ...], compiled: bool) -> None:
    run = tf.function(gradients, autograph=False) if compiled else gradients
    for found, expected in zip(run(convolution, shape), gradients(of_pixels, shape), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_larger_kernels_are_left_alone() -> None:
    x, kernel = tf.ones((4, 8, 8, 3)), tf.ones((3, 3, 3, 2))
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        loss = tf.reduce_sum(tf.nn.conv2d(x, kernel, 2, "VALID"))
    assert tape.gradient(loss, kernel).shape == (3, 3, 3, 2)
