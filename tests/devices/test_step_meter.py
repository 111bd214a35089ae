"""The meter counts inside of compiled steps, in branches and loops too, and delays nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.install import install
from tfdist.runtime.step_meter import StepMeter
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.ring_all_reduce import Ring


class Clock:
    """Replaces TensorFlow's clock, and advances only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked: tf.Tensor = None

    def timestamp(self) -> tf.Tensor:
        self.looked = tf.numpy_function(lambda: np.float64(self.now), [], tf.float64)
        self.looked.set_shape([])
        return self.looked

    def pass_before(self, seconds: float, x: tf.Tensor) -> tf.Tensor:
        """`x`, some time later."""

        def wait(value: np.ndarray) -> np.ndarray:
            self.now += seconds
            return value

        result = tf.numpy_function(wait, [x], x.dtype)
        result.set_shape(x.shape)
        return result


@pytest.fixture
def deterministic() -> Iterator[None]:
    tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        config.disable_op_determinism()


def test_no_clock_is_read_where_tensorflow_refuses_it(deterministic: None) -> None:
    """A script that calls `enable_op_determinism` trains, and what it waits is not known."""
    meter = StepMeter()

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        meter.arrive(x)
        meter.count(tf.size(x))
        return meter.timed([x], lambda values: [values[0] + 1.0])[0]

    np.testing.assert_array_equal(step(tf.zeros([3])), [1.0, 1.0, 1.0])
    assert meter.read().samples == 3.0
    assert (meter.read().waited, meter.read().fetched) == (0.0, 0.0)


@pytest.mark.parametrize("where", ["step", "branch", "loop", "eager"])
def test_counts_the_time_between_input_and_result(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meter, clock = StepMeter(), Clock()
    monkeypatch.setattr(tf, "timestamp", clock.timestamp)

    def step(x: tf.Tensor) -> tf.Tensor:
        # What is slow before the sum is none of its time.
        x = clock.pass_before(8.0, x)

        def compute(values: Any) -> list[tf.Tensor]:
            # Nothing waits for the clock, so that here it might be looked at too late.
            with tf.control_dependencies([clock.looked]):
                return [clock.pass_before(0.5, tf.identity(values[0]))]

        (total,) = meter.timed([x], compute)
        meter.count(tf.constant(8, tf.int64))
        return total

    bodies: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
        "branch": lambda x: tf.cond(tf.constant(True), lambda: step(x), lambda: x),
        # Each round takes what the one before gave: rounds that overlap would share the time.
        "loop": lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, step(x)), [0, x])[1],
    }
    run = step if where == "eager" else tf.function(bodies.get(where, step), autograph=False)
    assert float(run(tf.constant([1.0]))[0]) == 1.0
    times = 3 if where == "loop" else 1
    reading = meter.read()
    assert reading.samples == 8 * times
    assert reading.waited == 0.5 * times


def control_inputs(function: Any, *specs: tf.TensorSpec) -> dict[str, set[str]]:
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return {op.name: {before.name for before in op.control_inputs} for op in graph.get_operations()}


def test_no_sum_waits_for_the_clock_or_for_the_last_input() -> None:
    meter, ring = StepMeter(), Ring(2)
    big = tf.TensorSpec([1 << 20])

    def plain(x: tf.Tensor, y: tf.Tensor) -> Any:
        return ring.sum([x, y])

    def timed(x: tf.Tensor, y: tf.Tensor) -> Any:
        return meter.timed([x, y], ring.sum)

    before, after = control_inputs(plain, big, big), control_inputs(timed, big, big)
    sums = [name for name in before if name.startswith("CollectiveReduceV2") and "/" not in name]
    assert len(sums) == 2
    assert {name: before[name] for name in sums} == {name: after[name] for name in sums}
    assert any(name.startswith("Timestamp") for name in after)


def test_samples_of_a_fit_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    import keras

    for strategy in (tf.distribute.get_strategy(), mirrored(3)):
        meter = StepMeter()
        monkeypatch.setattr(settings_of(strategy), "meter", meter)
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            x = np.zeros((41, 3), "float32")
            model.fit(x, x[:, :1], batch_size=8, epochs=2, validation_split=0.5, verbose=0)
            model.evaluate(x, x[:, :1], verbose=0)
        assert meter.read().samples == 2 * 20
        assert meter.read().waited == 0


BATCHES, SLOW_SECONDS = 8, 0.02


class Source:
    """Batches that come some time after a training step has begun to wait for them, however early they are fetched.

    Attributes:
        asked: Released by each training step that begins to wait.
        trains: Whether training steps ask; an evaluation does not.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Semaphore(0)
        self.trains = False
        timestamp, fetching = tf.timestamp, StepMeter.fetching

        def timestamp_and_ask() -> tf.Tensor:
            seconds = timestamp()
            # Only the look at the clock that begins a wait depends on nothing.
            return seconds if tf.executing_eagerly() or seconds.op.control_inputs else self._ask_after(seconds)

        @contextlib.contextmanager
        def fetching_and_ask(meter: StepMeter) -> Iterator[None]:
            with fetching(meter):
                self.asked.release()
                yield

        monkeypatch.setattr(tf, "timestamp", timestamp_and_ask)
        monkeypatch.setattr(StepMeter, "fetching", fetching_and_ask)

    def _ask_after(self, seconds: tf.Tensor) -> tf.Tensor:
        """The same seconds; what waits for them is asked for."""

        def ask(value: np.ndarray) -> np.ndarray:
            self.asked.release()
            return value

        seconds.graph.experimental_acd_manager.run_independently(seconds.op)
        asked = tf.numpy_function(ask, [seconds], seconds.dtype)
        asked.set_shape([])
        return asked

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(BATCHES):
            if self.trains:
                assert self.asked.acquire(timeout=60)
                threading.Event().wait(SLOW_SECONDS)
            yield np.zeros((6, 4), np.float32), np.zeros((6, 1), np.float32)

    def dataset(self) -> tf.data.Dataset:
        spec = (tf.TensorSpec([6, 4], tf.float32), tf.TensorSpec([6, 1], tf.float32))
        options = tf.data.Options()
        options.autotune.enabled = False
        return tf.data.Dataset.from_generator(self.batches, output_signature=spec).with_options(options)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("outside", [True, False], ids=["fetched outside", "fetched inside"])
def test_waiting_for_data_is_counted_in_training_alone(
    replicas: int, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of unknown number are fetched outside of the compiled step, the others inside."""
    install()
    import keras

    source = Source(monkeypatch)
    strategy = tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)
    meter = StepMeter()
    monkeypatch.setattr(settings_of(strategy), "meter", meter)
    data = source.dataset()
    data = data if outside else data.apply(tf.data.experimental.assert_cardinality(BATCHES))
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
    model.evaluate(data, verbose=0)
    assert meter.read().fetched == 0
    source.trains = True
    model.fit(data, verbose=0)
    assert meter.read().fetched > BATCHES * SLOW_SECONDS / 2
