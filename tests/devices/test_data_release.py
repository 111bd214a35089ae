"""A model keeps nothing of the data that it was trained on."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tests.exactness.table import classifier, numbers
from tfdist import keras_repairs
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator

SAMPLES, BATCH = 61, 4


def references_of_fit(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """To the feeds and iterators of a `fit` with a validation that is over, and to its datasets."""
    kept: list[weakref.ref[Any]] = []
    original = BatchIterator.__init__

    def noting(self: BatchIterator, iterator: Any, *args: Any) -> None:
        original(self, iterator, *args)
        kept.extend([weakref.ref(self), weakref.ref(iterator)])

    monkeypatch.setattr(BatchIterator, "__init__", noting)
    x, y = numbers(SAMPLES)
    data = tf.data.Dataset.from_tensor_slices((x.astype("float32"), y)).batch(BATCH)
    held_out = data.take(2)
    model.fit(data, epochs=2, validation_data=held_out, verbose=0)
    assert len(kept) >= 6, "two epochs and a validation"
    return [*kept, weakref.ref(data), weakref.ref(held_out)]


@pytest.mark.parametrize("steps", [1, 3])
def test_iterators_and_datasets_go_with_the_fit(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=steps)
        references = references_of_fit(model, monkeypatch)
        gc.collect()
        assert [kept for kept in (reference() for reference in references) if kept is not None] == []
