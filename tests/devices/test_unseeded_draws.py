"""What `tf.random` draws without a seed in a replica's step: one draw on all replicas, or rows of the replica's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.repair_removal import take_out
from tests.helpers.mirrored import mirrored, strictly
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import tensorflow_seeds

pytestmark = pytest.mark.usefixtures("repaired", "unseeded")

ROWS = 11
WIDTH = 7
Draw = Callable[[Any], Any]


@pytest.fixture
def unseeded() -> None:
    """Without a global seed of TensorFlow's: with one, draws are refused."""
    tf.random.set_seed(None)


class Drawing(keras.Model):
    """Returns what a function of its inputs draws, a row for each sample."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self.draw = draw

    def call(self, x: Any) -> Any:
        return tf.zeros_like(x) + tf.cast(self.draw(x), x.dtype)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def drawn(draw: Draw, *, batches: int = 1, **compiled: Any) -> np.ndarray:
    """What two devices draw for batches of `ROWS` samples: [batches, ROWS, WIDTH]."""
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((WIDTH,)), Drawing(draw)])
        model.compile(**compiled)
        x = np.ones((batches * ROWS, WIDTH), "float32")
        return model.predict(x, batch_size=ROWS, verbose=0).reshape(batches, ROWS, WIDTH)


def shuffled_numbers(_: Any) -> Any:
    return tf.random.shuffle(tf.range(WIDTH))


def sampled_classes(_: Any) -> Any:
    """Whose operation is not drawn from a seed of the step's; it has a state on each replica."""
    return tf.random.uniform_candidate_sampler([[0]], 1, WIDTH, True, 1000).sampled_candidates


FIXED: dict[str, tuple[Draw, str]] = {
    "normal": (lambda _: tf.random.normal((WIDTH,)), "random_standard_normal"),
    "truncated_normal": (lambda _: tf.random.truncated_normal((WIDTH,)), "truncated_normal"),
    "uniform": (lambda _: tf.random.uniform((WIDTH,)), "random_uniform"),
    "integers": (lambda _: tf.random.uniform((WIDTH,), 3, 10**6, tf.int32), "random_uniform_int"),
    "gamma": (lambda _: tf.random.gamma((), tf.fill((WIDTH,), 2.0), beta=0.5), "random_gamma"),
    "poisson": (lambda _: tf.random.poisson((WIDTH,), 1000.0), "random_poisson_v2"),
    "categorical": (lambda _: tf.random.categorical(tf.zeros((1, 1000)), WIDTH), "multinomial"),
    "shuffle": (shuffled_numbers, "random_shuffle"),
    "number": (lambda _: tf.random.uniform(()), "random_uniform"),
}


@pytest.mark.parametrize("name", FIXED)
def test_a_draw_without_rows_of_samples_is_the_same_on_every_replica(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, operation = FIXED[name]
    found = drawn(draw, batches=3)
    np.testing.assert_array_equal(found, np.repeat(found[:, :1], ROWS, axis=1))
    assert len(np.unique(found[:, 0], axis=0)) == 3, "the same numbers in several steps"
    take_out(f"tensorflow.python.ops.gen_random_ops.{operation}", monkeypatch)
    take_out("tensorflow.python.framework.random_seed.get_seed", monkeypatch)
    own = drawn(draw, batches=3)
    assert not np.array_equal(own, np.repeat(own[:, :1], ROWS, axis=1))


@pytest.mark.parametrize("compiled", [{"run_eagerly": True}, {"jit_compile": True}])
@pytest.mark.parametrize("name", ["normal", "number"])
def test_the_same_where_steps_run_eagerly_or_are_compiled_by_xla(name: str, compiled: dict[str, Any]) -> None:
    found = drawn(FIXED[name][0], batches=2, **compiled)
    np.testing.assert_array_equal(found, np.repeat(found[:, :1], ROWS, axis=1))
    assert len(np.unique(found[:, 0], axis=0)) == 2


@pytest.mark.parametrize("eagerly", [False, True])
def test_sampled_classes_are_the_same_on_every_replica(eagerly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = drawn(sampled_classes, batches=3, run_eagerly=eagerly)
    np.testing.assert_array_equal(found, np.repeat(found[:, :1], ROWS, axis=1))
    assert len(np.unique(found[:, 0], axis=0)) == 3
    take_out("tensorflow.python.framework.random_seed.get_seed", monkeypatch)
    own = drawn(sampled_classes, batches=3, run_eagerly=eagerly)
    assert not np.array_equal(own, np.repeat(own[:, :1], ROWS, axis=1))


OF_SAMPLES: dict[str, Draw] = {
    "normal": lambda x: tf.random.normal(tf.shape(x)),
    "uniform across": lambda x: tf.transpose(tf.random.uniform((WIDTH, tf.shape(x)[0]))),
    "gamma of rows": lambda x: tf.random.gamma((), 2 * x),
    "poisson of rows": lambda x: tf.random.poisson((), 1e9 * x),
    "categorical": lambda x: tf.random.categorical(tf.zeros((tf.shape(x)[0], 10**6)), WIDTH),
    "in a loop over the rows": lambda x: tf.map_fn(lambda row: row + tf.random.normal((WIDTH,)), x),
    "of selected rows": lambda x: tf.random.normal((tf.shape(tf.boolean_mask(x, x[:, 0] > 0))[0], WIDTH)),
}


@pytest.mark.parametrize("name", OF_SAMPLES)
def test_a_draw_with_a_row_for_each_sample_has_other_numbers_in_each(name: str) -> None:
    found = drawn(OF_SAMPLES[name], batches=2)
    assert len(np.unique(found.reshape(-1, WIDTH), axis=0)) == 2 * ROWS


def test_what_is_gathered_draws_the_same_on_every_replica() -> None:
    """It is computed by every replica, for the rows of all."""
    found = drawn(lambda x: tfdist.gathered(lambda rows: tf.random.normal(tf.shape(rows)))(x))
    assert len(np.unique(found.reshape(-1, WIDTH), axis=0)) == ROWS
    same = drawn(lambda x: tfdist.gathered(lambda rows: rows * tf.reduce_mean(tf.random.normal(tf.shape(rows))))(x))
    np.testing.assert_array_equal(same, np.repeat(same[:, :1], ROWS, axis=1))


def test_a_number_that_may_be_the_size_of_the_batch_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"tf\.random: .*cannot be told"), mirrored(2).scope():
        model = NoisyGradients(keras.Input((WIDTH,)), rows=ROWS // 2)
        model.compile(keras.optimizers.SGD(1.0), run_eagerly=True)
        model.fit(np.ones((ROWS, WIDTH), "float32"), np.ones((ROWS, 1), "float32"), batch_size=ROWS, verbose=0)


class NoisyGradients(keras.Model):
    """Adds noise to its gradients, and logs how large it is; what it trains has no other gradient.

    Args:
        rows: Of the noise of each of its numbers, of which it takes the sum.
    """

    def __init__(self, inputs: Any, rows: int = 1) -> None:
        super().__init__(inputs, keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False)(inputs))
        self.rows = rows

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True))) * 0.0
        (gradient,) = tape.gradient(loss, self.trainable_variables)
        noise = tf.reduce_sum(tf.random.normal((self.rows, *gradient.shape)), axis=0)
        self.optimizer.apply_gradients([(gradient + noise, self.trainable_variables[0])])
        return {"squared": tf.reduce_sum(tf.square(noise))}


@pytest.mark.parametrize("eagerly", [False, True])
def test_noise_on_gradients_is_that_of_one_device(eagerly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over replicas that each add their own would be smaller."""

    def squared() -> tuple[float, float]:
        with mirrored(2).scope():
            model = NoisyGradients(keras.Input((WIDTH,)))
            model.compile(keras.optimizers.SGD(1.0), run_eagerly=eagerly)
            x = np.ones((ROWS, WIDTH), "float32")
            history = model.fit(x, np.ones((ROWS, 1), "float32"), batch_size=ROWS, verbose=0).history
        return float(np.square(model.get_weights()[0]).sum()), history["squared"][0]

    np.testing.assert_allclose(*squared(), rtol=1e-5)
    monkeypatch.setattr(tensorflow_seeds, "seeds_of_replica", lambda: None)
    assert not np.allclose(*squared(), rtol=1e-2)


def mixed_by_gamma(x: Any) -> Any:
    """MixUp of the batch with itself, turned round, as Keras's guide draws its share."""
    first, second = tf.random.gamma((1,), 0.2), tf.random.gamma((1,), 0.2)
    share = tf.cast(first / (first + second), x.dtype)
    return share * x + (1 - share) * tf.reverse(x, [0])


def mixed_by_shuffling(x: Any) -> Any:
    return 0.5 * x + 0.5 * tf.random.shuffle(x)


class Mixing(keras.Model):
    """A step that couples the rows of its batch by what it draws."""

    mix: Any = None

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(type(self).mix(x), training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


@pytest.mark.parametrize("mix", [mixed_by_gamma, mixed_by_shuffling])
def test_steps_that_mix_rows_by_what_they_draw_are_refused_and_run_when_gathered(mix: Draw) -> None:
    def fit(mix: Draw) -> None:
        with mirrored(2).scope():
            inputs = keras.Input((WIDTH,))
            model = type("Mixing", (Mixing,), {"mix": staticmethod(mix)})(inputs, keras.layers.Dense(1)(inputs))
            model.compile(keras.optimizers.SGD(0.1))
            x = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype("float32")
            model.fit(x, x[:, :1], batch_size=4, verbose=0)

    with strictly(mirrored(2)), pytest.raises(UnsupportedError, match=r"neither a mean nor a sum.*tfdist\.gathered"):
        fit(mix)
    fit(lambda x: tfdist.gathered(mix)(x))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x * tf.random.poisson((), 5.0 * x),
        lambda x: x * tf.cast(tf.random.categorical(tf.concat([x, -x], 1), 1), x.dtype),
        lambda x: x * tf.random.gamma((), tf.exp(x)),
    ],
)
def test_steps_that_draw_by_their_rows_are_left_alone(draw: Draw) -> None:
    with mirrored(2).scope():
        inputs = keras.Input((WIDTH,))
        model = type("Mixing", (Mixing,), {"mix": staticmethod(draw)})(inputs, keras.layers.Dense(1)(inputs))
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(np.ones((ROWS, WIDTH), "float32"), np.ones((ROWS, 1), "float32"), batch_size=4, verbose=0)
