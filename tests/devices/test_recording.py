"""What a recorded run notes of its batches, gradients, weights and model."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tfdist.keras_repairs.base.model_facts import model_facts
from tfdist.launch.recording_request import RecordingRequest
from tfdist.training.probes.perturbation import perturb_weights
from tfdist.training.probes.recorder import Recorder, RecordingComplete
from tfdist.training.probes.recording_file import Recording
from tfdist.training.probes.step_fingerprints import StepFingerprints, fingerprint
from tfdist.training.probes.weight_samples import MOST_ELEMENTS

X = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def of(batch: Any) -> float:
    return float(fingerprint(batch))


def test_a_fingerprint_adds_up_whatever_the_parts_and_the_order() -> None:
    y = np.arange(7)
    whole = of((tf.constant(X), tf.constant(y)))
    parts = [slice(0, 3), slice(3, 7), slice(7, 7)]
    assert sum(of((tf.constant(X[part]), tf.constant(y[part]))) for part in parts) == pytest.approx(whole, rel=1e-12)
    order = np.random.default_rng(2).permutation(7)
    assert of((tf.constant(X[order]), tf.constant(y[order]))) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    "other",
    [X[:, ::-1], -X, X * np.float32(1 + 1e-6), np.roll(X, 1, axis=1)],
    ids=["mirrored", "negative", "nearly the same", "shifted"],
)
def test_another_batch_has_another_fingerprint(other: np.ndarray) -> None:
    assert of(tf.constant(other.copy())) != pytest.approx(of(tf.constant(X)), rel=1e-9)


def test_a_missing_value_leaves_the_others_to_tell() -> None:
    """NaN, as data have it that a model masks, and infinities."""
    batches = [
        [[math.nan, 1.0], [2.0, 3.0]],
        [[math.nan, 1.0], [2.0, 4.0]],
        [[2.0, math.nan], [2.0, 3.0]],
        [[math.inf, 1.0], [2.0, 3.0]],
        [[-math.inf, 1.0], [2.0, 3.0]],
    ]
    found = [of(tf.constant(batch)) for batch in batches]
    assert all(math.isfinite(number) for number in found) and len(set(found)) == len(batches)
    assert of(tf.constant(batches[0][::-1])) == pytest.approx(found[0], rel=1e-12)


def test_classes_of_one_hot_labels_tell() -> None:
    assert of(tf.one_hot([0, 1, 2], 4)) != pytest.approx(of(tf.one_hot([0, 1, 3], 4)), rel=1e-9)


@pytest.mark.parametrize(
    ("batch", "other"),
    [
        (tf.constant(["a", "b"]), tf.constant(["a", "c"])),
        (tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1, 2], [4]])),
        (tf.sparse.from_dense([[0.0, 2.0]]), tf.sparse.from_dense([[0.0, 3.0]])),
        ({"a": tf.constant([True]), "b": None}, {"a": tf.constant([False]), "b": None}),
    ],
    ids=["strings", "ragged", "sparse", "dict of booleans"],
)
def test_kinds_of_data(batch: Any, other: Any) -> None:
    assert of(batch) == of(batch)
    assert of(batch) != of(other)


def test_what_has_no_rows_is_left_out() -> None:
    assert of((tf.constant(3.0), None)) == 0.0


@pytest.mark.parametrize("replicas", [2, 3])
def test_gradients_count_once_and_data_of_all_replicas(replicas: int) -> None:
    strategy = mirrored(replicas)
    observer = StepFingerprints(strategy)
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([1, 1]), tf.constant([3, 1]))

    def step() -> None:
        observer.on_gradients([tf.constant([4.0]), None, slices])
        observer.on_batch(tf.constant([[1.0]]))

    run = tf.function(lambda: strategy.run(step))
    run()
    norm, data = observer.read()
    assert norm == pytest.approx(5.0)  # 4 and, at one index, 1 + 2
    assert data == pytest.approx(replicas * of(tf.constant([[1.0]])))
    observer.reset()
    assert observer.read() == (0.0, 0.0)


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


@pytest.mark.parametrize(
    ("layer", "is_random"),
    [
        (lambda: keras.layers.Dropout(0.5), True),
        (lambda: keras.layers.Dropout(0.0), False),
        (lambda: keras.layers.GaussianNoise(0.1), True),
        (lambda: keras.layers.SpatialDropout1D(0.1), True),
        (lambda: keras.layers.Dense(1), False),
        (lambda: keras.layers.LSTM(1), False),
        (lambda: keras.layers.LSTM(1, recurrent_dropout=0.5), True),
    ],
)
def test_random_layers(layer: Callable[[], keras.layers.Layer], is_random: bool) -> None:
    inside = keras.Sequential([layer()])
    model = keras.Sequential([inside])
    model.compile("sgd", "mse")
    assert bool(model_facts(model)["random_layers"]) == is_random


def test_facts() -> None:
    inputs = keras.Input((4,))
    normalized = keras.layers.BatchNormalization(name="free")(inputs)
    normalized = keras.layers.BatchNormalization(name="synchronized", synchronized=True)(normalized)
    normalized = keras.layers.BatchNormalization(name="frozen", trainable=False)(normalized)
    outputs = keras.layers.Dense(1, dtype="mixed_bfloat16")(normalized)
    model = OwnStep(inputs, outputs)
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=2), "mse", steps_per_execution=3)
    facts = model_facts(model)
    assert facts["unsynchronized"] == ["free"]
    assert facts["overrides"] == ["OwnStep.train_step"]
    assert facts["compute_dtypes"] == ["bfloat16", "float32"]
    assert (facts["steps_per_execution"], facts["accumulates"], facts["jit_compile"]) == (3, True, False)
    assert "free/moving_mean" in facts["non_trainable"]


def test_a_perturbation_is_a_rounding_error_and_always_the_same() -> None:
    def perturbed() -> tuple[np.ndarray, np.ndarray]:
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(100)])
        before = model.get_weights()[0]
        perturb_weights(model)
        return before, model.get_weights()[0]

    before, after = perturbed()
    change = np.abs(after / before - 1)
    assert (change > 1e-7).all() and (change < 1e-6).all()
    assert 100 < np.sum(after > before) < 300
    np.testing.assert_array_equal(after, perturbed()[1])


def test_a_recording_of_one_fit(tmp_path: Path) -> None:
    """Without the observers, which the repairs call: its moments, its values, its end in the middle of an epoch."""
    recorder = Recorder(RecordingRequest(str(tmp_path), steps=4), 0, tf.distribute.get_strategy())
    layers = [keras.Input((4,)), keras.layers.Dense(300, name="large"), keras.layers.Dense(1)]
    model = keras.Sequential(layers, name="model")
    model.compile("sgd", "mse", metrics=["mae"])
    seen: list[np.ndarray] = []
    look = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(model.get_weights()[0]))
    with pytest.raises(RecordingComplete) as end:
        model.fit(X, X[:, 0], batch_size=3, epochs=9, verbose=0, shuffle=False, validation_data=(X, X[:, 0]),
                  callbacks=[recorder.callback(), look])  # fmt: skip
    assert end.value.code == 0
    recording = Recording.read(tmp_path / "worker-0.npz")
    assert recording is not None
    assert [moment.step for moment in recording.moments] == [0, 1, 2, 3, 4]  # three steps an epoch
    assert [sorted(moment.values) for moment in recording.moments] == [[]] + 4 * [["loss", "mae"]]
    large = [moment.weights["model/large/kernel"] for moment in recording.moments]
    np.testing.assert_array_equal(large[3], seen[2].ravel())
    assert recording.facts["models"][0]["epoch_steps"] == 3


def test_a_fit_that_ends_sooner_is_recorded_as_far_as_it_goes(tmp_path: Path) -> None:
    recorder = Recorder(RecordingRequest(str(tmp_path), steps=50), 0, tf.distribute.get_strategy())
    for _ in range(2):
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        execute = model.make_train_function() or model.train_function
        model.fit(X, X[:, 0], batch_size=4, verbose=0, callbacks=[recorder.callback()])
        assert model.train_function is execute
    recording = Recording.read(tmp_path / "worker-0.npz")
    assert recording is not None
    assert [(moment.step, moment.fit) for moment in recording.moments] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (2, 1),
        (3, 1),
        (4, 1),
    ]


def test_large_weights_are_sampled_in_every_column(tmp_path: Path) -> None:
    recorder = Recorder(RecordingRequest(str(tmp_path), steps=1), 0, tf.distribute.get_strategy())
    columns = 512
    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(columns, use_bias=False)])
    model.layers[0].kernel.assign(np.tile(np.arange(columns), (1024, 1)))
    model.compile("sgd", "mse")
    with pytest.raises(RecordingComplete):
        model.fit(np.zeros((2, 1024)), np.zeros((2, columns)), verbose=0, callbacks=[recorder.callback()])
    recording = Recording.read(tmp_path / "worker-0.npz")
    assert recording is not None
    (sample,) = recording.moments[0].weights.values()
    assert MOST_ELEMENTS / 2 < len(sample) <= MOST_ELEMENTS
    assert set(sample) == set(range(columns))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.0, 1.0], [0.25, 1.0], {"model/dense/bias": 0.25}),
        ([0.0, 1.0], [0.0, math.nan], {"model/dense/bias": math.inf}),
        ([-math.inf, 1.0], [math.inf, 1.0], {"model/dense/bias": math.inf}),
        ([math.nan, 1.0], [math.nan, 1.5], {"model/dense/bias": 0.5}),
        ([math.nan, math.inf], [math.nan, math.inf], {}),
    ],
)
def test_copies_that_differ_are_noted(
    first: list[float], second: list[float], expected: dict[str, float], tmp_path: Path
) -> None:
    strategy = mirrored(2)
    recorder = Recorder(RecordingRequest(str(tmp_path), steps=1), 0, strategy)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")], name="model")
        model.compile("sgd", "mse")
    for copy, values in zip(
        strategy.experimental_local_results(model.layers[0].bias.value), (first, second), strict=True
    ):
        copy.assign(values)
    recorder.begin_fit(model, None)
    recorder.write()
    recording = Recording.read(tmp_path / "worker-0.npz")
    assert recording is not None
    assert dict(recording.moments[0].apart) == expected
