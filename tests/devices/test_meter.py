"""The meter counts inside of compiled steps, in branches and loops too, and holds nothing back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tfdist.keras_repairs.install import install
from tfdist.runtime.meter import Meter, meter_of, use_meter
from tfdist.runtime.ring import Ring


def waits(seconds: float, x: tf.Tensor) -> tf.Tensor:
    """`x`, some time later."""

    def wait(value: np.ndarray) -> np.ndarray:
        import threading

        threading.Event().wait(seconds)
        return value

    result = tf.numpy_function(wait, [x], x.dtype)
    result.set_shape(x.shape)
    return result


@pytest.mark.parametrize("where", ["step", "branch", "loop", "eager"])
def test_counts_the_time_between_input_and_result(where: str) -> None:
    meter = Meter()

    def step() -> tf.Tensor:
        # What is slow before the sum is none of its time.
        x = waits(0.3, tf.constant([1.0]))
        (total,) = meter.timed([x], lambda values: [waits(0.05, values[0])])
        meter.count(tf.constant(8, tf.int64))
        return total

    def loop() -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < 3, lambda i, _: (i + 1, step()), [0, tf.constant([0.0])])[1]

    body = {"branch": lambda: tf.cond(tf.constant(True), step, lambda: tf.constant([0.0])), "loop": loop}
    run = step if where == "eager" else tf.function(body.get(where, step), autograph=False)
    assert float(run()[0]) == 1.0
    times = 3 if where == "loop" else 1
    reading = meter.read()
    assert reading.samples == 8 * times
    assert 0.05 * times <= reading.waited < 0.3 * times


def control_inputs(function: Any, *specs: tf.TensorSpec) -> dict[str, set[str]]:
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return {op.name: {before.name for before in op.control_inputs} for op in graph.get_operations()}


def test_no_sum_waits_for_the_clock_or_for_the_last_input() -> None:
    meter, ring = Meter(), Ring(2)
    big = tf.TensorSpec([1 << 20])

    def plain(x: tf.Tensor, y: tf.Tensor) -> Any:
        return ring.sum([x, y])

    def timed(x: tf.Tensor, y: tf.Tensor) -> Any:
        return meter.timed([x, y], ring.sum)

    before, after = control_inputs(plain, big, big), control_inputs(timed, big, big)
    sums = [name for name in before if name.startswith("CollectiveReduceV2") and "/" not in name]
    assert len(sums) > 2
    assert {name: before[name] for name in sums} == {name: after[name] for name in sums}
    assert any(name.startswith("Timestamp") for name in after)


def test_samples_of_a_fit_are_counted_once() -> None:
    install()
    import keras

    for strategy in (tf.distribute.get_strategy(), mirrored(3)):
        before = meter_of(strategy)
        meter = Meter()
        use_meter(strategy, meter)
        try:
            with strategy.scope():
                model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
                model.compile("sgd", "mse")
                x = np.zeros((41, 3), "float32")
                model.fit(x, x[:, :1], batch_size=8, epochs=2, validation_split=0.5, verbose=0)
                model.evaluate(x, x[:, :1], verbose=0)
        finally:
            use_meter(strategy, before)  # type: ignore[arg-type]
        assert meter.read().samples == 2 * 20
        assert meter.read().waited == 0
