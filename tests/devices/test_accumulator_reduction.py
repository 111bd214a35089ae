"""An optimizer that is saved inside of an accumulation holds what all replicas have added up, and loads as that."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.comparison import assert_same
from tests.exactness.table import classifier, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import on_chief
from tfdist.keras_repairs.optimizer.gradient_accumulation import checkpoint_frequency_digest

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCH, STEPS = 65, 16, 3
"""Epochs of 5 batches, the last of which leaves all replicas but one without a sample; an update every 3."""

Optimizer = Callable[[], keras.optimizers.Optimizer]
callbacks = keras.callbacks


def adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.05, gradient_accumulation_steps=STEPS)


def scaled() -> keras.optimizers.Optimizer:
    return keras.optimizers.LossScaleOptimizer(adam())


def built(optimizer: Optimizer = adam) -> keras.Model:
    keras.utils.set_random_seed(11)
    model = classifier()
    model.compile(optimizer(), "sparse_categorical_crossentropy")
    return model


def fit(model: keras.Model, *given: callbacks.Callback, epochs: int = 1) -> keras.Model:
    x, y = numbers(SAMPLES)
    model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=list(given))
    return model


def state(model: keras.Model) -> list[list[float]]:
    variables = [*model.weights, *model.optimizer.variables]
    return [np.asarray(variable.numpy(), np.float64).ravel().tolist() for variable in variables]


def on(replicas: int) -> Any:
    return tf.distribute.get_strategy().scope() if replicas == 1 else mirrored(replicas).scope()


class Looks(callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen = state(self.model)


@functools.cache
def trained(replicas: int, optimizer: Optimizer = adam) -> tuple[keras.Model, list[list[float]]]:
    """A model after an epoch, which tests do not change, and its state as a callback saw it at the epoch's end."""
    with on(replicas):
        model = fit(built(optimizer), looks := Looks())
    return model, looks.seen


@functools.cache
def gone_on(optimizer: Optimizer) -> list[list[float]]:
    """The state after two epochs on one replica, which nobody saved in between."""
    return state(fit(built(optimizer), epochs=2))


@pytest.mark.parametrize(
    ("saving", "loading", "optimizer"),
    [(3, 2, adam), slow(3, 2, scaled), slow(2, 2, adam), slow(3, 3, adam), slow(3, 3, scaled), slow(3, 1, adam),
     slow(1, 3, adam)],
)  # fmt: skip
def test_saved_and_loaded_inside_an_accumulation(
    saving: int, loading: int, optimizer: Optimizer, tmp_path: Path
) -> None:
    model, _ = trained(saving, optimizer)
    with on(saving):
        model.save(tmp_path / "model.keras")
    with on(loading):
        assert_same(gone_on(optimizer), state(fit(keras.saving.load_model(tmp_path / "model.keras"))))


@pytest.mark.slow
def test_given_the_weights_of_another_optimizer() -> None:
    first, _ = trained(3)
    with on(3):
        second = built()
        second.set_weights(first.get_weights())
        second.optimizer.build(second.trainable_variables)
        second.optimizer.set_weights([variable.numpy() for variable in first.optimizer.variables])
        assert_same(gone_on(adam), state(fit(second)))


def test_what_is_saved_is_what_one_replica_saves() -> None:
    """By a callback at the end of an epoch, and after the training."""
    (one, _), (several, seen) = trained(1), trained(3)
    assert_same(state(one), state(several))
    assert_same(state(one), seen)


@pytest.mark.parametrize("replicas", [slow(2), 3])
def test_checkpoints_inside_an_epoch(replicas: int, tmp_path: Path) -> None:
    """They hold what one replica's hold, with two and with one accumulated, and change nothing in the training."""
    _, expected = checkpointed(tmp_path / "one")
    with on(replicas):
        ended, written = checkpointed(tmp_path / "several")
    assert_same(expected, written)
    assert_same(gone_on(adam), ended)


def checkpointed(folder: Path) -> tuple[list[list[float]], dict[str, list[list[float]]]]:
    """The state after two epochs, and what checkpoints of the first have, by their number of batches."""
    model = fit(built(), callbacks.ModelCheckpoint(folder / "{epoch}-{batch}.keras", save_freq=2), epochs=2)
    written = {str(batch): state(keras.saving.load_model(folder / f"1-{batch}.keras")) for batch in (2, 4)}
    return state(model), written


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 3])
def test_backed_up_inside_an_epoch(replicas: int, tmp_path: Path) -> None:
    expected = restored(tmp_path / "one")
    with on(replicas):
        assert_same(expected, restored(tmp_path / "several"))


def restored(folder: Path) -> list[list[float]]:
    """Trains an epoch that ends inside of an accumulation, is interrupted in the next, restores and trains that."""

    class Interrupted(Exception):
        pass

    def interrupt(batch: int, logs: Any) -> None:
        if model.optimizer._iterations.numpy() == 8:
            raise Interrupted

    model = built()
    backup = functools.partial(callbacks.BackupAndRestore, str(folder), save_freq=2)
    with pytest.raises(Interrupted):
        fit(model, backup(), callbacks.LambdaCallback(on_train_batch_end=interrupt), epochs=2)
    return state(fit(built(), backup(), epochs=2))


def test_an_optimizer_of_another_size_is_not_loaded() -> None:
    """Keras warns; what the replicas have accumulated stays as it is."""
    model, _ = trained(3)
    before = state(model)
    with on(3), pytest.warns(UserWarning, match="Skipping variable loading"):
        model.optimizer.load_own_variables({})
    assert state(model) == before


def test_workers_know_whether_they_save_the_same() -> None:
    checkpoint = functools.partial(callbacks.ModelCheckpoint, "m.keras")
    each, other, none = checkpoint(save_freq=4), checkpoint(save_freq=5), checkpoint()
    assert checkpoint_frequency_digest([none, each]) == checkpoint_frequency_digest([each])
    assert len({checkpoint_frequency_digest(given) for given in ([], [each], [other], [each, other])}) == 4
    assert checkpoint_frequency_digest([on_chief(each)]) == checkpoint_frequency_digest([each])
