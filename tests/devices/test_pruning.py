"""Pruning while `fit` trains: the same masks and weights on any number of replicas, and after a kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.killed_script import BATCH, STEPS, Script, assert_same, compiled, network, samples
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.optimizer import masked_updates
from tfdist.keras_repairs.optimizer.masked_updates import slots_of
from tfdist.training.config_objects.objects import make_callbacks
from tfdist.training.config_objects.problems import Problems
from tfdist.training.pruning.pruning_callback import Pruning

Optimizer = Callable[[], keras.optimizers.Optimizer]

optimizers = keras.optimizers
MOMENTUM: Optimizer = lambda: optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.3)  # noqa: E731
AVERAGES: Optimizer = lambda: optimizers.AdamW(0.02, use_ema=True, ema_overwrite_frequency=5)  # noqa: E731
ACCUMULATED: Optimizer = lambda: optimizers.Adam(0.02, gradient_accumulation_steps=3, clipnorm=0.1)  # noqa: E731
LION: Optimizer = lambda: optimizers.Lion(0.01)  # noqa: E731


def classifier(optimizer: keras.optimizers.Optimizer, **options: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, strides=2, activation="relu", name="conv"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Flatten(),
            keras.layers.Dense(12, name="hidden", kernel_constraint=keras.constraints.MaxNorm(1.0)),
            keras.layers.ReLU(),
            keras.layers.Dense(3, name="last"),
        ]
    )
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model


def data(count: int = 70) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    return draws.normal(size=(count, 8, 8, 1)).astype(np.float32), draws.integers(0, 3, count)


def train(strategy: tf.distribute.Strategy, optimizer: Optimizer, *callbacks: Any, **options: Any) -> keras.Model:
    with strategy.scope():
        model = classifier(optimizer(), **options)
    x, y = data()
    model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=list(callbacks))
    return model


def masks(pruning: Pruning) -> dict[str, np.ndarray]:
    return {group.pruned.name: group.mask for group in pruning.groups}


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize(
    ("optimizer", "replicas", "arguments", "options"),
    [
        (MOMENTUM, 3, {"sparsity": 0.7, "end": 9, "every": 2}, {}),
        slow(ACCUMULATED, 2, {"sparsity": 0.5, "structure": "channels", "begin": 1}, {"steps_per_execution": 4}),
        slow(AVERAGES, 2, {"structure": "2:4", "skip": ["conv"]}, {}),
        slow(LION, 3, {"sparsity": 0.9, "schedule": "constant", "begin": 3, "layers": ["hidden"]}, {}),
        slow(MOMENTUM, 2, {"structure": "1:3", "layers": ["hidden", "last"], "every": 1}, {}),
    ],
)
def test_masks_and_weights_are_those_of_one_replica(
    optimizer: Optimizer, replicas: int, arguments: dict[str, Any], options: dict[str, Any]
) -> None:
    one, several = Pruning(**arguments), Pruning(**arguments)
    expected = train(tf.distribute.get_strategy(), optimizer, one, **options)
    model = train(mirrored(replicas), optimizer, several, **options)
    for name, mask in masks(one).items():
        np.testing.assert_array_equal(masks(several)[name], mask)
    for mine, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)
    for group in several.groups:
        for copy in copies(group.pruned.kernel):
            assert not copy.numpy()[~group.mask].any()
    assert several.layer_sparsity() == one.layer_sparsity()
    assert {each.name: round(each.pruned / each.weights, 2) for each in one.layer_sparsity()} == {
        name: round(1 - float(mask.mean()), 2) for name, mask in masks(one).items()
    }


@pytest.mark.usefixtures("repaired")
def test_nothing_brings_a_weight_back() -> None:
    """Neither momentum, nor an average that overwrites weights or that `fit` ends with, nor other callbacks."""
    revived: list[int] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            for group in pruning.groups:
                slots = list(slots_of(self.model.optimizer, group.pruned.kernel))
                for variable in (group.pruned.kernel, *slots):
                    revived.extend(np.count_nonzero(copy.numpy()[~group.mask]) for copy in copies(variable))
            if batch == 0:
                counts.append(len(slots))

    counts: list[int] = []
    pruning = Pruning(0.8, end=6, every=1)
    stop = keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True)
    model = train(mirrored(2), AVERAGES, Watch(), stop, pruning)
    assert counts == [3, 3, 3]  # momentum, velocity, average
    assert revived and not any(revived)
    for layer in pruning.layer_sparsity():
        kernel = model.get_layer(layer.name).kernel.numpy()
        assert layer.pruned == int(0.8 * layer.weights + 0.5)
        assert np.count_nonzero(kernel) == layer.weights - layer.pruned


def test_a_mask_that_optimizers_do_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the masked updates, momentum brings weights back: the tests above can fail."""
    monkeypatch.setattr("tfdist.training.pruning.pruning_callback.mask_updates", lambda model, masked: None)
    monkeypatch.setattr(Pruning, "on_train_end", lambda self, logs=None: None)
    pruning = Pruning(0.8, end=4, every=1)
    model = train(tf.distribute.get_strategy(), MOMENTUM, pruning)
    assert any(np.count_nonzero(model.get_layer(name).kernel.numpy()[~mask]) for name, mask in masks(pruning).items())


def test_clipping_looks_at_what_is_there() -> None:
    """Of channels that are gone from the first step on, training is that of a model that never had them."""
    pruning = Pruning(0.5, "channels", schedule="constant", layers=["hidden"])
    tight: Optimizer = lambda: optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.1)  # noqa: E731
    whole = train(tf.distribute.get_strategy(), tight, pruning)
    (group,) = pruning.groups
    kept = np.flatnonzero(group.mask.any(axis=0))
    assert len(kept) == 6
    start = classifier(tight())
    small = keras.Sequential.from_config(
        {**start.get_config(), "layers": [_with_units(layer, "hidden", 6) for layer in start.get_config()["layers"]]}
    )
    small.set_weights([_part(start.get_layer(name), values, kept) for name, values in _named_weights(start)])
    small.compile(tight(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = data()
    small.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    for (name, values), mine in zip(_named_weights(whole), small.get_weights(), strict=True):
        np.testing.assert_allclose(mine, _part(whole.get_layer(name), values, kept), rtol=2e-5, atol=2e-6)


def _with_units(layer: dict[str, Any], name: str, units: int) -> dict[str, Any]:
    config = {**layer["config"], "units": units} if layer["config"].get("name") == name else layer["config"]
    return {key: value for key, value in {**layer, "config": config}.items() if key != "build_config"}


def _named_weights(model: keras.Model) -> list[tuple[str, np.ndarray]]:
    return [(layer.name, values) for layer in model.layers for values in layer.get_weights()]


def _part(layer: keras.layers.Layer, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    if layer.name == "hidden":
        return values[..., kept]
    return values[kept] if layer.name == "last" and values.ndim == 2 else values


def pruned_script(script: Script) -> None:
    x, y = samples()
    model = compiled(network(), keras.optimizers.AdamW(0.02, use_ema=True, gradient_accumulation_steps=2))
    pruning = Pruning(0.75, begin=2, end=3 * STEPS - 3, every=3)
    script.fit(model, x, y, batch_size=BATCH, epochs=4, callbacks=[pruning])
    script.values += [group.mask.tobytes() for group in pruning.groups]


@pytest.mark.parametrize(
    ("replicas", "kills"),
    [
        slow(2, [("on_train_batch_begin", STEPS + 5), ("on_epoch_begin", 2)]),
        slow(1, [("on_train_batch_begin", 3), ("on_train_batch_begin", 2 * STEPS)]),
    ],
)
def test_every_bit_is_that_of_a_training_that_was_not_killed(
    replicas: int, kills: list[tuple[str, int]], tmp_path: Path
) -> None:
    whole = Script(tmp_path / "whole", pruned_script, replicas)
    assert whole.run()
    killed = Script(tmp_path / "killed", pruned_script, replicas)
    for method, call in kills:
        assert not killed.run(method, call)
    assert killed.run()
    assert_same(killed, whole)


@pytest.mark.slow
@pytest.mark.usefixtures("repaired")
def test_it_goes_on_after_keras_own_backup(tmp_path: Path) -> None:
    """Which knows no masks: they are the zeros among the weights, and the schedule goes on with the epoch."""

    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise InterruptedError

    def fit(pruning: Pruning, *callbacks: Any) -> keras.Model:
        model = classifier(LION())
        x, y = data()
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        model.fit(x, y, batch_size=16, epochs=4, shuffle=False, verbose=0, callbacks=[backup, *callbacks, pruning])
        return model

    whole, killed = Pruning(0.8, end=15), Pruning(0.8, end=15)
    expected = fit(whole).get_weights()
    with pytest.raises(InterruptedError):
        fit(Pruning(0.8, end=15), Kill())
    for mine, other in zip(fit(killed).get_weights(), expected, strict=True):
        np.testing.assert_array_equal(mine, other)
    assert whole.layer_sparsity() == killed.layer_sparsity()


def test_what_is_saved_is_a_plain_model(tmp_path: Path) -> None:
    """In the midst of a training, too; and the model itself is a plain one afterwards."""
    pruning = Pruning(0.6, every=2)
    save = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")
    model = train(tf.distribute.get_strategy(), MOMENTUM, save, pruning)
    for file in (tmp_path / "2.keras", tmp_path / "3.keras"):
        assert b"tfdist" not in file.read_bytes()
        loaded = keras.models.load_model(file)
        assert [weight.shape for weight in loaded.weights] == [weight.shape for weight in model.weights]
    assert isinstance(model.get_layer("hidden").kernel.constraint, keras.constraints.MaxNorm)
    assert model.get_layer("last").kernel.constraint is None
    x, y = data()
    model.fit(x, y, verbose=0)
    assert np.count_nonzero(model.get_layer("last").kernel.numpy()) == 36, "a fit without it trains all weights"


def test_logs_have_the_sparsity() -> None:
    pruning = Pruning(0.5, begin=5, end=10, every=5)
    model = classifier(MOMENTUM())
    x, y = data()
    history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, callbacks=[pruning]).history["sparsity"]
    assert history == pytest.approx([0.0, 0.5, 0.5], abs=0.01)


def test_a_training_that_is_too_short_says_so(caplog: pytest.LogCaptureFixture) -> None:
    train(tf.distribute.get_strategy(), MOMENTUM, Pruning(0.5, end=1000))
    assert "has not reached its end: the training ended after 15 steps" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sparsity": 0.5, "layers": ["hiden"]}, "no layer hiden. Did you mean hidden"),
        ({"sparsity": 0.5, "skip": ["conv", "nothing"]}, "no layer nothing"),
        ({"sparsity": 0.5, "skip": "conv"}, "list of names"),
        ({"sparsity": 0.5, "layers": ["norm"]}, "norm cannot be pruned: it is a BatchNormalization"),
        ({"sparsity": 0.5, "skip": ["conv", "hidden", "last"]}, "no layer to prune"),
        ({"structure": "2:4"}, "Received: conv has 1. Leave these out: skip conv"),
        ({"structure": "2:5", "skip": ["conv", "hidden"]}, "last has 12"),
        ({"sparsity": 0.5, "structure": "channels", "skip": ["conv", "hidden"]}, "last is at the end"),
    ],
)
def test_what_cannot_be_pruned_is_refused_before_the_first_step(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        train(tf.distribute.get_strategy(), MOMENTUM, Pruning(**arguments))


def test_several_replicas_without_the_repairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist.training.pruning.pruning_callback.is_installed", lambda: False)
    with mirrored(2).scope():
        model = classifier(MOMENTUM())
    pruning = Pruning(0.5)
    pruning.set_model(model)
    with pytest.raises(UnsupportedError, match="tfdist train"):
        pruning.on_train_begin()


def test_it_belongs_on_every_worker() -> None:
    with pytest.raises(UsageError, match="Pruning, which changes the weights"):
        tfdist.on_chief(tfdist.Pruning(0.5))


def test_a_config_names_it_and_it_comes_last() -> None:
    problems = Problems()
    values = {"fit.callbacks": [{"name": "pruning", "sparsity": 0.8, "every": 10}, "terminate_on_nan"]}
    callbacks = make_callbacks(values, problems)
    assert [type(callback).__name__ for callback in callbacks] == ["TerminateOnNaN", "Pruning"]


def test_a_sparse_gradient_is_masked_row_by_row() -> None:
    variable = keras.Variable(np.ones((3, 2), np.float32))
    masked = masked_updates.MaskedVariable.of(variable)
    masked.write(np.array([[True, False], [True, True], [False, True]]))
    gradient = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([2, 0]), tf.constant([3, 2]))
    assert masked.masked(gradient).values.numpy().tolist() == [[0, 1], [1, 0]]
