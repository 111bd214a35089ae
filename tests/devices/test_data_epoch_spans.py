"""Epochs of a given number of steps: over passes on end, on any number of replicas, from any step on."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.test_data_pipeline import expected_epoch, read_epoch
from tests.exactness.table import classifier, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.formats.generator_samples import GeneratorSamples
from tfdist.data.pipeline import build, replica_batches
from tfdist.data.sample_feed import SampleFeed
from tfdist.errors import UsageError
from tfdist.keras_repairs.inputs.data_adapters import distribute
from tfdist.order.epoch_order import EpochOrder, EpochSteps
from tfdist.order.epoch_span import Position
from tfdist.order.per_worker_order import WorkerShareSteps
from tfdist.runtime.batches.dataset_description import take_partial_epoch

SAMPLES, BATCH = 10, 4  # 3 steps a pass, of which the last has 2 samples
EPOCHS = 4


def planned(steps: int, replicas: int) -> list[Any]:
    """The batches of each epoch, from passes that are shuffled each in its own way."""
    passes = [
        step
        for number in range(-(-EPOCHS * steps // 3))
        for step in expected_epoch(EpochOrder(SAMPLES, 7, True).of(number), BATCH, replicas)
    ]
    return [passes[epoch * steps : (epoch + 1) * steps] for epoch in range(EPOCHS)]


def opened(strategy: tf.distribute.Strategy, steps: int, begin: Position) -> Any:
    source = ArraySamples(np.zeros((SAMPLES, 2)), np.arange(SAMPLES))
    options: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 7, "strategy": strategy}
    return build(source, **options, begin=begin, steps_per_epoch=steps)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
def test_epochs_follow_one_another_over_passes(strategy: tf.distribute.Strategy, steps: int) -> None:
    batches = opened(strategy, steps, Position(0))
    read = [read_epoch(batches, strategy) for _ in range(EPOCHS)]
    assert read == planned(steps, strategy.num_replicas_in_sync)


@pytest.mark.parametrize("done", [1, 4, 5])
def test_a_resumed_training_begins_with_the_rest_of_an_epoch(strategy: tf.distribute.Strategy, done: int) -> None:
    later = opened(strategy, 5, Position(1, done))
    expected = planned(5, strategy.num_replicas_in_sync)[1:]
    rest = take_partial_epoch(later)
    assert rest is not None
    assert read_epoch(rest.batches(), strategy) == expected[0][done:]
    assert [read_epoch(later, strategy) for _ in expected[1:]] == expected[1:]


@pytest.mark.parametrize("steps", [EpochSteps(69, 32, 3), WorkerShareSteps((60, 8, 1), 32, 3)])
def test_replicas_know_the_size_of_the_whole_batch(steps: EpochSteps | WorkerShareSteps) -> None:
    y = np.arange(steps.num_samples)
    feed = SampleFeed(ArraySamples(y, y), EpochOrder(steps.num_samples), steps, steps_per_epoch=5)
    strategy, totals = mirrored(3), []
    batches = distribute(replica_batches(feed, strategy), strategy)
    for step in (step for _ in range(3) for step in batches):
        rows = [int(samples) for samples in strategy.experimental_local_results(step.samples)]
        firsts = [int(first) for first in strategy.experimental_local_results(step.first)]
        assert firsts == [sum(rows[:replica]) for replica in range(3)]
        totals.append(int(strategy.experimental_local_results(step.total)[0]))
        assert totals[-1] == sum(rows)
    assert totals == [32, 32, 5] * 5


@pytest.mark.usefixtures("repaired", "float64")
@pytest.mark.parametrize("replicas", [2, slow(3)])
def test_a_training_is_that_of_one_replica_and_of_keras_over_data_that_repeats(replicas: int) -> None:
    x, y = numbers(65)
    options: dict[str, Any] = {"epochs": 4, "verbose": 0}

    def trained(data: Any, **more: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        keras.utils.set_random_seed(5)
        model = classifier()
        model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
        history = model.fit(data, **options, **more).history
        return history, model.get_weights()

    def fed() -> Any:
        strategy = tf.distribute.get_strategy()
        return build(ArraySamples(x, y), batch_size=16, strategy=strategy, steps_per_epoch=7)

    plain = trained(tf.data.Dataset.from_tensor_slices((x, y)).batch(16).repeat(), steps_per_epoch=7)
    one = trained(fed())
    with mirrored(replicas).scope():
        several = trained(fed())
    for received in (one, several):
        for name, values in plain[0].items():
            np.testing.assert_allclose(received[0][name], values, rtol=1e-6)
        for weight, expected in zip(received[1], plain[1], strict=True):
            np.testing.assert_allclose(weight, expected, rtol=1e-6, atol=1e-9)


def test_data_that_is_read_in_sequence_is_refused() -> None:
    source = GeneratorSamples(lambda: iter([(1.0, 2)] * 4), samples=4)
    with pytest.raises(UsageError, match="fit.steps_per_epoch 3, with data that is read in sequence"):
        build(source, batch_size=2, steps_per_epoch=3)
