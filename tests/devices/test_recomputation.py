"""Tests of activations that are computed again in the backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.repair_removal import take_out
from tests.exactness.comparison import assert_same
from tests.exactness.recomputed_cases import CASES
from tests.exactness.recomputed_models import MODES, blocks
from tests.exactness.table import FLOAT64, ONLY_TRAINED, Case, fitted, numbers, outcome_of
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.keras_repairs import recomputation

Values = list[np.ndarray]


@pytest.fixture(autouse=True)
def repaired() -> None:
    keras_repairs.install()


@functools.cache
def trained(mode: str | None) -> dict[str, Any]:
    """Losses, and all that a model keeps: weights, seeds, moving averages, how often a layer was called."""

    def make(samples: int) -> dict[str, Any]:
        model = blocks(mode)
        made = fitted(model, *numbers(samples))
        return {**made, **ONLY_TRAINED, "seen": [np.asarray(variable).tolist() for variable in model.variables]}

    return outcome_of(Case(str(mode), "", make, FLOAT64), 65)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_bits_are_those_of_activations_that_are_kept(mode: str) -> None:
    assert trained(mode) == trained(None)


@pytest.mark.parametrize("name", ["list_of_layers", *(slow(name) for name in CASES if name != "list_of_layers")])
def test_several_devices_have_the_numbers_of_one(name: str) -> None:
    case = CASES[name]
    one = outcome_of(case, 65)
    with mirrored(3).scope():
        several = outcome_of(case, 65)
    for part in one:
        relative = case.precision.weights if part == "weights" else case.precision.losses
        assert_same(one[part], several[part], part, relative)


def test_without_the_repair_keras_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    take_out("keras.src.backend.tensorflow.core.remat", monkeypatch)
    with pytest.raises(ValueError, match="keywords arguments only when eager execution is enabled"):
        outcome_of(CASES["full"], 8)


def stacked(x: tf.Tensor, weights: tf.Tensor, seed: Any) -> tf.Tensor:
    """Calls that each have activations of their own: a mask, and two functions."""

    def call(x: tf.Tensor, weight: tf.Tensor, seed: Any = None) -> tf.Tensor:
        y = keras.random.dropout(tf.tanh(x @ weight), 0.5, seed=seed)
        return x + tf.sin(y) @ weight

    for weight in tf.unstack(weights):
        x = keras.remat(call)(x, weight, seed=seed)
    return x


def gradients() -> tuple[Values, dict[str, int]]:
    """The gradients, and how many operations of each kind read, in the backward pass, what the forward pass made."""
    seen: dict[str, int] = {}
    seed = keras.random.SeedGenerator(1)

    @tf.function(autograph=False)
    def run(x: tf.Tensor, weights: tf.Tensor) -> list[tf.Tensor]:
        graph = tf.compat.v1.get_default_graph()
        with tf.GradientTape() as tape:
            tape.watch([x, weights])
            loss = tf.reduce_sum(stacked(x, weights, seed) ** 2)
        forward = graph.get_operations()
        found: list[tf.Tensor] = tape.gradient(loss, [x, weights])
        last = forward[-1]._id
        for op in forward:
            if op.type in ("Tanh", "Sin", "MatMul", "SelectV2", "GreaterEqual", "Mul"):
                readers = [reader for output in op.outputs for reader in output.consumers() if reader._id > last]
                seen[op.type] = seen.get(op.type, 0) + sum(reader.type != "Shape" for reader in readers)
        return found

    values = run(tf.ones((5, 4), tf.float64), tf.random.stateless_normal((3, 4, 4), (1, 2), dtype=tf.float64))
    return [value.numpy() for value in values], seen


def without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "_let_read", lambda *_: None)


def test_the_backward_pass_reads_nothing_that_was_computed_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    again, readers = gradients()
    without_copies(monkeypatch)
    kept, others = gradients()
    for one, other in zip(kept, again, strict=True):
        np.testing.assert_array_equal(other, one)
    assert set(readers.values()) == {0}
    assert others["Tanh"] and others["Sin"]


def test_a_step_that_is_not_traced_keeps_activations() -> None:
    x, weights = tf.ones((5, 4), tf.float64), tf.random.stateless_normal((3, 4, 4), (1, 2), dtype=tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([x, weights])
        loss = tf.reduce_sum(stacked(x, weights, keras.random.SeedGenerator(1)) ** 2)
    for one, other in zip(tape.gradient(loss, [x, weights]), gradients()[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def second(function: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor) -> tf.Tensor:
    """A gradient of a gradient."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)


def test_gradients_of_gradients_and_of_outputs_that_nobody_reads() -> None:
    def call(x: tf.Tensor, scale: float = 1.0) -> tuple[tf.Tensor, tf.Tensor]:
        hidden = tf.tanh(scale * x)
        return tf.sin(hidden * x), tf.exp(hidden)

    x = tf.constant([0.3, -0.7], tf.float64)
    plain = tf.function(lambda x: second(lambda x: call(x, scale=2.0)[0], x))
    again = tf.function(lambda x: second(lambda x: keras.remat(call)(x, scale=2.0)[0], x))
    np.testing.assert_array_equal(again(x), plain(x))
    assert tf.function(lambda x: unread(keras.remat(call), x))(x) == []


def unread(function: Callable[..., Any], x: tf.Tensor) -> list[tf.Tensor]:
    """The gradient by a tensor that an output does not depend on: there is none, not zeros."""
    other = tf.zeros(2, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(other)
        y = function(x)[0]
    return [found for found in tape.gradient(y, [other]) if found is not None]
