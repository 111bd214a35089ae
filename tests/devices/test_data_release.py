"""Data is freed: a model keeps nothing of what it was trained on, and nothing keeps a pipeline that is done."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import classifier, numbers
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.pipeline import build
from tfdist.keras_repairs.inputs.data_adapters import distribute
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.order.epoch_span import Position

SAMPLES, BATCH = 61, 4


def alive() -> list[Any]:
    """The iterators of batches, and TensorFlow's inside of them, that something in the process refers to."""
    gc.collect()
    kinds = (BatchIterator, tf.distribute.DistributedIterator)
    # By type: TensorFlow's lazy modules would load if they were asked for their class.
    return [found for found in gc.get_objects() if issubclass(type(found), kinds)]


class CountsIterators(keras.callbacks.Callback):
    """Counts what is alive while a validation runs."""

    most = 0

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.most = max(self.most, len(alive()))


@pytest.mark.parametrize("steps", [1, 3])
def test_iterators_and_datasets_go_with_the_fit(steps: int) -> None:
    keras_repairs.install()
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=steps)
        before, during = len(alive()), CountsIterators()
        x, y = numbers(SAMPLES)
        data = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y)).batch(BATCH)
        held_out = data.take(2)
        model.fit(data, epochs=2, validation_data=held_out, callbacks=[during], verbose=0)
        datasets = [weakref.ref(data), weakref.ref(held_out)]
        del data, held_out
        assert during.most >= before + 2, "an iterator of batches and the one inside of it, of the validation at least"
        assert len(alive()) == before
        assert [dataset() for dataset in datasets] == [None, None]


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_describes_a_pipeline_goes_with_it(replicas: int) -> None:
    strategy = tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)
    source = ArraySamples(np.zeros((9, 2)), np.arange(9))
    batches = build(source, strategy=strategy, batch_size=4, begin=Position(0, 1))
    if replicas > 1:
        distribute(batches, strategy)
    reference = weakref.ref(batches)
    del batches
    gc.collect()
    assert reference() is None
