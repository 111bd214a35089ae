"""What the recorder of a run notes of its steps, and the perturbation that it may begin with."""

from __future__ import annotations

import math
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.launch.worker_requests import RecordingRequest
from tfdist.training.probes.probe_files import Recording
from tfdist.training.probes.recorder import Recorder, RecordingComplete, perturb_weights
from tfdist.training.probes.step_fingerprints import MOST_ELEMENTS

X = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


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


def test_each_model_is_perturbed_before_its_first_step_alone(tmp_path: Path) -> None:
    recorder = Recorder(RecordingRequest(str(tmp_path), steps=50, perturbed=True), 0, tf.distribute.get_strategy())
    moved: list[bool] = []

    def fit(model: keras.Model) -> None:
        before = model.get_weights()[0]
        model.compile("sgd", "mse")
        look = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: moved.append(bool((model.get_weights()[0] != before).any()))
        )
        model.fit(X, X[:, 0], epochs=1, verbose=0, callbacks=[recorder.callback(), look])

    first, second = (keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]) for _ in range(2))
    for model in (first, first, second):
        fit(model)
    assert moved == [True, False, True]


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
    assert dict(recording.moments[0].differences) == expected
