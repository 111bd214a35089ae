"""Random numbers of a replica's step: which sizes are of the batch, and what cannot be drawn as one device does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.repair_removal import take_out
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored, strictly
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.coupling import traced_calls as traced_draws
from tfdist.keras_repairs.draw_slices.draw_scope import DrawLog, recording_draws, replaying_draws
from tfdist.keras_repairs.random_numbers import draw_sizes, seeds
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")

random = keras.random


class Calling(keras.Model):
    """Calls a function of its inputs and of a generator of seeds; a model, as layers may be gathered whole."""

    def __init__(self, function: Callable[[Any, keras.random.SeedGenerator], Any]) -> None:
        super().__init__()
        self.function = function
        self.seed = random.SeedGenerator(5)

    def call(self, x: Any) -> Any:
        return self.function(x, self.seed)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def predicted(function: Callable[[Any, Any], Any], replicas: int, rows: int = 11, **compiled: Any) -> np.ndarray:
    """What a layer makes of a batch of numbers."""
    x, _ = numbers(rows)
    with mirrored(replicas).scope() if replicas > 1 else tf.distribute.get_strategy().scope():
        model = keras.Sequential([keras.Input((6,)), Calling(function)])
        model.compile(**compiled)
        return model.predict(x.astype("float32"), batch_size=rows, verbose=0)


def of_fixed_shape(x: Any, seed: Any) -> Any:
    """As many numbers as a replica has rows, and none of them is of a row."""
    return x + keras.ops.sum(random.normal((4, 6), seed=seed), axis=0)


def of_the_batch(x: Any, seed: Any) -> Any:
    return x + random.normal((keras.ops.shape(x)[0], 6), seed=seed)


@pytest.mark.parametrize("function", [of_fixed_shape, of_the_batch])
def test_the_origin_of_a_size_decides(function: Callable[[Any, Any], Any]) -> None:
    np.testing.assert_allclose(predicted(function, 3), predicted(function, 1), rtol=1e-6)


def test_a_size_that_is_lost_in_a_step_of_one_size_stays_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of what MixUp returns: to compare it with the number of rows ended the trace."""
    monkeypatch.setattr(draw_sizes, "current_step", lambda: SimpleNamespace(share=SimpleNamespace(static_rows=4)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def lost(x: tf.Tensor) -> tf.Tensor:
        assert isinstance(keras.ops.shape(tf.ensure_shape(x, (4, 3)))[0], draw_sizes.BatchSize)
        return keras.ops.shape(x)[0]

    assert int(lost(tf.ones((4, 3)))) == 4


def of_as_many_rows(x: Any, seed: Any) -> Any:
    """Of a tensor that has as many rows as a replica, and none of the batch."""
    return x + keras.ops.sum(random.normal(keras.ops.shape(keras.ops.ones((4, 6))), seed=seed), axis=0)


def of_tensorflow_sizes(x: Any, seed: Any) -> Any:
    fixed = tf.random.stateless_normal(tf.shape(tf.ones((4, 6))), (1, 2))
    return x + tf.random.stateless_normal(tf.shape(x), (3, 4)) + tf.reduce_sum(fixed, 0)


@pytest.mark.parametrize("function", [of_fixed_shape, of_the_batch, of_as_many_rows, of_tensorflow_sizes])
def test_the_origin_of_a_size_decides_in_eager_steps(function: Callable[[Any, Any], Any]) -> None:
    one = predicted(function, 1, run_eagerly=True)
    np.testing.assert_allclose(predicted(function, 3, run_eagerly=True), one, rtol=1e-6)


def around_loops_and_branches(x: Any, seed: Any) -> Any:
    """Of as many rows as a replica has, after draws of the batch of which fewer, or more, are traced than made."""
    noisy = lambda x: x + random.normal((keras.ops.shape(x)[0], 6), seed=seed)  # noqa: E731
    x = keras.ops.fori_loop(0, 2, lambda _, x: noisy(x), x)
    x = tf.cond(tf.constant(False), lambda: x, lambda: noisy(noisy(x)))
    x = tf.switch_case(tf.constant(1), [lambda: x, lambda: noisy(x), lambda: noisy(noisy(x))])
    return x + keras.ops.sum(random.normal((4, 6), seed=seed), axis=0)


def test_draws_in_loops_and_branches_of_eager_steps_are_known_by_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    one = predicted(around_loops_and_branches, 1, rows=8, run_eagerly=True)
    np.testing.assert_allclose(predicted(around_loops_and_branches, 2, rows=8, run_eagerly=True), one, rtol=1e-5)
    # By their order alone one is taken for another.
    monkeypatch.setattr(seeds, "parts_of_call", lambda kind: lambda part: contextlib.nullcontext())
    assert not np.allclose(predicted(around_loops_and_branches, 2, rows=8, run_eagerly=True), one, rtol=1e-3)


@pytest.mark.parametrize("eagerly", [True, False])
def test_the_origin_of_a_size_decides_in_batches_of_one_size(eagerly: bool) -> None:
    def on_batch(replicas: int) -> np.ndarray:
        with mirrored(replicas).scope() if replicas > 1 else tf.distribute.get_strategy().scope():
            model = keras.Sequential([keras.Input((6,)), Calling(of_as_many_rows), Calling(of_the_batch)])
            model.compile(run_eagerly=eagerly)
            return model.predict_on_batch(numbers(8)[0].astype("float32"))

    np.testing.assert_allclose(on_batch(2), on_batch(1), rtol=1e-6)


def test_what_a_trace_shows_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = predicted(of_as_many_rows, 1, rows=8, run_eagerly=True)
    monkeypatch.setattr(traced_draws, "_is_users", lambda layer: False)
    assert not np.allclose(predicted(of_as_many_rows, 2, rows=8, run_eagerly=True), one)


def of_values(x: Any, seed: Any) -> Any:
    """Cannot be traced; with the rows of the last replica, which has fewer."""
    assert not tf.is_symbolic_tensor(x)
    return x + keras.ops.sum(random.normal((3, 6), seed=seed), axis=0)


def test_a_number_that_may_be_the_batch_or_not_is_refused_on_all_replicas_alike() -> None:
    with pytest.raises(UnsupportedError, match=r"shape \(3, 6\) in a step with 4 rows"):
        predicted(of_values, 3, run_eagerly=True)


def of_selected_rows(x: Any, seed: Any) -> Any:
    selected = tf.boolean_mask(x, x[:, 0] > 0)
    return x + keras.ops.sum(random.normal(keras.ops.shape(selected), seed=seed), axis=0)


def across_unknown_lengths(x: Any, seed: Any) -> Any:
    length = keras.ops.shape(keras.ops.reshape(x, (-1, 2)))[0]
    return x + keras.ops.mean(random.uniform((6, length, keras.ops.shape(x)[0]), seed=seed), axis=(0, 1))[:, None]


def of_shuffled_numbers(x: Any, seed: Any) -> Any:
    order = random.shuffle(keras.ops.arange(keras.ops.shape(x)[0]), seed=seed)
    return x + keras.ops.take(x, order, axis=0)


UNTOLD = {
    of_selected_rows: "depends on the values of the data",
    across_unknown_lengths: "which of them is that of the batch cannot be told",
    of_shuffled_numbers: "tfdist.gathered",
}
"""Draws of which a replica alone cannot tell its part, and what it says."""


@pytest.mark.parametrize(("function", "message"), UNTOLD.items())
def test_a_draw_whose_place_cannot_be_told_is_refused(
    function: Callable[[Any, Any], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    with pytest.raises(UnsupportedError, match=message):
        predicted(function, 2)


@pytest.mark.parametrize("eagerly", [True, False])
@pytest.mark.parametrize("function", UNTOLD)
def test_a_model_with_a_draw_whose_place_cannot_be_told_is_gathered(
    function: Callable[[Any, Any], Any], eagerly: bool
) -> None:
    one = predicted(function, 1, run_eagerly=eagerly)
    np.testing.assert_allclose(predicted(function, 2, run_eagerly=eagerly), one, rtol=1e-6)


def test_a_draw_for_selected_rows_is_refused_where_one_device_compiles_it() -> None:
    """XLA draws for as many rows as may be selected, and of fewer rows it would draw other numbers."""
    with pytest.raises(UnsupportedError, match="jit_compile=False"):
        predicted(of_selected_rows, 2, jit_compile=True)


def of_tensorflow(x: Any, seed: Any) -> Any:
    return x + tf.random.normal(tf.shape(x))


def with_seed_of_tensorflow(x: Any, seed: Any) -> Any:
    return x + tf.random.normal(tf.shape(x), seed=3)


def test_seeded_numbers_of_tensorflow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"keras\.random"):
        predicted(with_seed_of_tensorflow, 2)
    keras.utils.set_random_seed(3)
    with pytest.raises(UnsupportedError, match=r"keras\.random"):
        predicted(of_tensorflow, 2)
    take_out("tensorflow.python.framework.random_seed.get_seed", monkeypatch)
    assert not np.allclose(predicted(of_tensorflow, 2), predicted(of_tensorflow, 1))


def in_turns(x: Any) -> Any:
    return tf.map_fn(lambda row: row + tf.random.normal([6], seed=3), x)


def of_poisson(x: Any) -> Any:
    return x + tf.random.poisson([6], 3.0, seed=3)


def sampled(x: Any) -> Any:
    return x + tf.cast(tf.random.uniform_candidate_sampler([[1]], 1, 1, True, 9, seed=3)[0], x.dtype)


@pytest.mark.parametrize(
    ("draw", "options", "said"),
    [
        (in_turns, {}, "in a loop"),
        (of_poisson, {}, "as random_poisson_v2"),
        (sampled, {}, "keeps its numbers for itself"),
        (lambda x: with_seed_of_tensorflow(x, None), {"run_eagerly": True}, "outside of the compiled steps"),
    ],
)
def test_seeded_numbers_of_tensorflow_that_nobody_knows_are_refused(draw: Any, options: Any, said: str) -> None:
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Lambda(draw)])
        model.compile("sgd", "mse", **options)
        with pytest.raises(UnsupportedError, match=rf"{said}.*keras\.random"):
            model.fit(np.zeros((8, 6)), np.zeros((8, 6)), verbose=0)


def test_seeded_numbers_of_tensorflow_begin_anew_with_batches_of_another_kind_alone() -> None:
    rows = np.ones((8, 6))
    data = tf.data.Dataset.from_tensor_slices((rows, rows))
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Lambda(lambda x: with_seed_of_tensorflow(x, None))])
        model.compile("sgd", "mse")
        model.fit(data.batch(4, drop_remainder=True), verbose=0)
        for train in (
            lambda: model.fit(data.batch(2, drop_remainder=True), verbose=0),
            lambda: model.train_on_batch(rows, rows),
        ):
            with pytest.raises(UnsupportedError, match="batches of another kind than before"):
                train()
        model.compile("sgd", "mse")
        model.fit(data.batch(2, drop_remainder=True), verbose=0)


def twice_by_generator(draw: Callable[[Any, Any], Any], replicas: int) -> np.ndarray:
    """The second draw begins where the first one has ended."""
    generator = tf.random.Generator.from_seed(3)

    def drawn(x: Any) -> Any:
        return tf.cast(draw(generator, tf.shape(x)), x.dtype)

    return predicted(lambda x, _: x + drawn(x) + 2 * drawn(x), replicas)


def full_integers(generator: tf.random.Generator, shape: tf.Tensor) -> tf.Tensor:
    return generator.uniform_full_int(shape, tf.uint32) // 2**20


OF_GENERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda generator, shape: generator.normal(shape),
    "truncated_normal": lambda generator, shape: generator.truncated_normal(shape),
    "uniform": lambda generator, shape: generator.uniform(shape),
    "uniform_full_int": full_integers,
}


@pytest.mark.parametrize("path", [*OF_GENERATORS, "_prepare_key_counter"])
def test_generators_of_tensorflow_draw_as_on_one_device(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = OF_GENERATORS.get(path, OF_GENERATORS["normal"])
    expected = twice_by_generator(draw, 1)
    np.testing.assert_allclose(twice_by_generator(draw, 2), expected, rtol=1e-6)
    take_out(f"Generator.{path}", monkeypatch)
    assert not np.allclose(twice_by_generator(draw, 2), expected)


def test_a_generator_that_takes_nobody_knows_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def binomial(generator: Any, shape: Any) -> Any:
        return generator.binomial(shape, counts=50.0, probs=0.5, dtype=tf.float32)

    with pytest.raises(UnsupportedError, match=r"keras\.random"):
        twice_by_generator(binomial, 2)
    take_out("Generator.binomial", monkeypatch)
    assert not np.allclose(twice_by_generator(binomial, 2), twice_by_generator(binomial, 1))


def test_a_generator_of_tensorflow_in_a_loop_draws_where_each_replica_has_its_state() -> None:
    def in_turns(generator: tf.random.Generator) -> Any:
        return lambda x: x + tf.map_fn(lambda number: generator.normal([6]), tf.range(3.0))[0]

    outside = tf.random.Generator.from_seed(3)
    with mirrored(2).scope():
        for generator, error in ((tf.random.Generator.from_seed(3), None), (outside, "loop or a branch")):
            model = keras.Sequential([keras.Input((6,)), keras.layers.Lambda(in_turns(generator))])
            model.compile("sgd", "mse")
            with contextlib.nullcontext() if error is None else pytest.raises(UnsupportedError, match=error):
                model.fit(np.zeros((8, 6)), np.zeros((8, 6)), verbose=0)
    assert np.any(outside.normal((3,)))


def for_each_row(x: Any, seed: Any) -> Any:
    return tf.map_fn(lambda row: row + random.normal((6,), seed=seed), x)


def while_there_are_rows(x: Any, seed: Any) -> Any:
    rows = keras.ops.shape(x)[0]
    turn = lambda i, sums: (i + 1, sums + random.uniform((6,), seed=seed))  # noqa: E731
    return x + keras.ops.while_loop(lambda i, _: i < rows, turn, (0, keras.ops.zeros((6,))))[1]


def on_what_the_rows_are(x: Any, seed: Any) -> Any:
    noisy = lambda: x + random.normal(keras.ops.shape(x), seed=seed)  # noqa: E731
    return keras.ops.cond(keras.ops.sum(x) > 1e9, lambda: x, noisy)


def as_the_rows_choose(x: Any, seed: Any) -> Any:
    index = keras.ops.cast(keras.ops.sum(x) > 1e9, "int32")
    return tf.switch_case(index, [lambda: x + random.normal(keras.ops.shape(x), seed=seed), lambda: x])


OPERATIONS = "tensorflow.python.ops"
LOOP, BRANCH = f"{OPERATIONS}.while_loop.while_loop", f"{OPERATIONS}.cond.cond"
SWITCH = f"{OPERATIONS}.control_flow_switch_case._indexed_case_helper"


@pytest.mark.parametrize(
    ("function", "path"),
    [
        (for_each_row, LOOP),
        (while_there_are_rows, LOOP),
        (on_what_the_rows_are, BRANCH),
        (as_the_rows_choose, SWITCH),
    ],
)
def test_seeds_that_the_batch_decides_on_are_refused(
    function: Callable[[Any, Any], Any], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise a model that draws so is gathered as a whole.
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    with pytest.raises(UnsupportedError, match=r"tfdist\.gathered"):
        predicted(function, 2)
    take_out(path, monkeypatch)
    predicted(function, 2)


def where_python_decides(x: Any, seed: Any) -> Any:
    """Cannot be traced, by which it would show that it takes numbers out of tensors."""
    assert not tf.is_symbolic_tensor(x)
    return x + random.normal(keras.ops.shape(x), seed=seed) if float(x[0, 0]) > LIMIT else x


class DrawsForEachRow(keras.Sequential):
    """In a loop of its own step, where the replicas have equal parts and take as many seeds each."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        return super().train_step((tf.map_fn(lambda row: row + random.normal((6,), seed=self.draws), x), y))


@pytest.mark.parametrize("eagerly", [True, False])
def test_a_step_that_draws_for_each_row_is_refused_strictly(eagerly: bool) -> None:
    with mirrored(2).scope(), strictly(mirrored(2)):
        model = DrawsForEachRow([keras.Input((6,)), keras.layers.Dense(1)])
        model.draws = random.SeedGenerator(5)
        model.compile("sgd", "mse", run_eagerly=eagerly)
        with pytest.raises(UnsupportedError, match=r"what the optimizer .*tfdist\.gathered"):
            model.fit(np.ones((8, 6), "float32"), np.ones((8, 1), "float32"), verbose=0)


LIMIT = 1000.0
"""Above what is made up for trials, and below the first number of one replica's rows."""


def test_seeds_that_python_decides_on_are_refused_in_eager_steps() -> None:
    x = np.zeros((8, 6), "float32")
    x[4] = LIMIT + 1
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((6,)), Calling(where_python_decides)])
        model.compile(run_eagerly=True)
        with pytest.raises(UnsupportedError, match=r"have taken other seeds.*tfdist\.gathered"):
            model.predict(x, verbose=0)
        model.predict(np.zeros((8, 6), "float32"), verbose=0)


def test_what_draws_for_each_row_is_gathered_when_asked() -> None:
    def gathered_rows(x: Any, seed: Any) -> Any:
        return tfdist.gathered(lambda rows: for_each_row(rows, seed))(x)

    np.testing.assert_allclose(predicted(gathered_rows, 2), predicted(gathered_rows, 1), rtol=1e-6)


def test_numbers_of_tensorflow_without_a_seed_are_drawn() -> None:
    tf.random.set_seed(None)
    noise = predicted(of_tensorflow, 2, rows=10) - numbers(10)[0]
    assert len(np.unique(noise.round(5))) == noise.size


DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draw", [random.uniform, random.normal, random.truncated_normal])
@pytest.mark.parametrize("width", [3, slow(4)])
def test_rows_of_every_dtype(draw: Callable[..., Any], dtype: str, width: int) -> None:
    def drawn(x: Any, seed: Any) -> Any:
        # Whatever type the layer has: the bits of the numbers.
        return keras.ops.cast(draw((keras.ops.shape(x)[0], width), dtype=dtype, seed=seed), "float64")

    np.testing.assert_array_equal(predicted(drawn, 3), predicted(drawn, 1))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_rows_of_integers(dtype: str) -> None:
    def drawn(x: Any, seed: Any) -> Any:
        return keras.ops.cast(random.randint((keras.ops.shape(x)[0], 3), -5, 90, dtype=dtype, seed=seed), "float32")

    np.testing.assert_array_equal(predicted(drawn, 3), predicted(drawn, 1))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint32, tf.uint64])
@pytest.mark.parametrize("width", [3, slow(4)])
def test_rows_of_bits(dtype: tf.DType, width: int) -> None:
    def drawn(x: Any, seed: Any) -> Any:
        bits = tf.random.stateless_uniform((tf.shape(x)[0], width), (1, 2), None, None, dtype)
        return tf.cast(bits % 9973, tf.float32)

    np.testing.assert_array_equal(predicted(drawn, 3), predicted(drawn, 1))


def test_rows_of_a_chosen_algorithm() -> None:
    def drawn(x: Any, seed: Any) -> Any:
        options = {"alg": tf.random.Algorithm.PHILOX, "dtype": "float32"}
        across = tf.random.stateless_normal((2, tf.shape(x)[0]), (1, 2), **options)
        return tf.random.stateless_normal(tf.shape(x)[:1], (3, 4), **options) + tf.reduce_sum(across, 0)

    np.testing.assert_array_equal(predicted(drawn, 3), predicted(drawn, 1))


def test_draws_are_replayed_by_rows_on_parts_of_a_batch() -> None:
    def code(x: Any, seed: Any) -> Any:
        x = random.dropout(of_the_batch(of_fixed_shape(x, seed), seed), 0.4, seed=seed)
        return x + keras.ops.transpose(random.uniform((6, keras.ops.shape(x)[0]), seed=seed))

    x = tf.constant(numbers(5)[0], tf.float32)
    log = DrawLog()
    with recording_draws(log):
        whole = code(x, random.SeedGenerator(5))
    for first, rows in ((0, 2), (2, 3)):
        with replaying_draws(log, first, rows, total=5):
            part = code(x[first : first + rows], random.SeedGenerator(6))
        np.testing.assert_allclose(part, whole[first : first + rows], rtol=1e-6)


def test_more_draws_on_a_part_than_on_the_whole_are_noticed() -> None:
    log = DrawLog()
    with recording_draws(log):
        random.uniform((5,))
    with replaying_draws(log, 0, 2, total=5):
        random.uniform((2,))
        with pytest.raises(UnsupportedError, match="more numbers are drawn for a part"):
            random.uniform((2,))
    with replaying_draws(log, 0, 2, total=5), pytest.raises(UnsupportedError, match="Expected a size of the batch"):
        random.uniform((3,))


def test_the_layer_that_draws_with_python_while_it_is_traced_is_refused() -> None:
    with mirrored(2).scope():
        model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.AugMix(), keras.layers.Flatten()])
        model.compile("sgd", "mse")
        with pytest.raises(UnsupportedError, match="AugMix"):
            model.fit(np.zeros((4, 8, 8, 3)), np.zeros((4, 192)), verbose=0)
