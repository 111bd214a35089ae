"""Predictions that are handed on step by step, from several replicas, beside those of one device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import data
from tfdist.config.data_sections import NpzSource
from tfdist.errors import UnsupportedError, UsageError
from tfdist.keras_repairs.loop.predictions import taking_predictions
from tfdist.order.epoch_span import Position
from tfdist.training.inference.outputs.step_outputs import arrays_of
from tfdist.training.inference.prediction_run import PART_SECONDS, PredictionSink
from tfdist.training.inference.prediction_store import PredictionStore

pytestmark = pytest.mark.usefixtures("repaired")

BATCH = 61
REPLICAS = pytest.mark.parametrize("replicas", [1, slow(2), 3])


class Outputs(keras.layers.Layer):
    """Numbers, a number of a whole, and a text for each sample."""

    def call(self, inputs: tf.Tensor) -> dict[str, Any]:
        best = tf.argmax(inputs, -1)
        return {"p": inputs, "best": best, "name": tf.gather(tf.constant(["cat", "", "é"]), best)}


def made(samples: int, dtype: str, folder: Path) -> tuple[np.ndarray, NpzSource]:
    x = np.random.default_rng(samples).normal(size=[samples, 4]).astype(dtype)
    np.savez(folder / "a.npz", x_train=x, y_train=np.zeros(samples, np.int64))
    return x, NpzSource(path=str(folder / "a.npz"), split="train")


def model_of(strategy: tf.distribute.Strategy, dtype: str) -> keras.Model:
    with strategy.scope():
        keras.utils.set_random_seed(3)
        inputs = keras.Input([4], dtype=dtype)
        return keras.Model(inputs, Outputs(dtype=dtype)(keras.layers.Dense(3, dtype=dtype)(inputs)))


def strategy_of(replicas: int) -> tf.distribute.Strategy:
    return mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()


@REPLICAS
@pytest.mark.parametrize(
    ("samples", "dtype", "begin"),
    [(1, "float32", 0), slow(65, "float64", 0), (450, "float32", 0), (450, "float64", 5), slow(65, "float32", 1)],
)
def test_every_sample_once_in_order(
    samples: int, dtype: str, begin: int, replicas: int, tmp_path: Path
) -> None:
    strategy = strategy_of(replicas)
    x, section = made(samples, dtype, tmp_path)
    model = model_of(strategy, dtype)
    opened = data.from_config(section, BATCH, 0, strategy)
    taken: list[Any] = []
    with taking_predictions(taken.append):
        left = model.predict(opened.begin(Position(0, begin)), verbose=0)
    assert all(len(rows) == 0 for rows in left.values())
    steps = [arrays_of(outputs, (), len(outputs["p"])) for outputs in taken]
    received = {name: np.concatenate([step[name] for step in steps]) for name in ("best", "name", "p")}
    # One device, without a strategy.
    logits = x @ model.get_weights()[0] + model.get_weights()[1]
    expected = logits[begin * BATCH :]
    np.testing.assert_allclose(received["p"], expected, rtol=1e-12 if dtype == "float64" else 2e-6, atol=1e-6)
    assert received["p"].dtype == dtype
    assert received["best"].tolist() == expected.argmax(-1).tolist()
    names = np.array(["cat", "", "é"])[expected.argmax(-1)]
    assert [name.decode() for name in received["name"]] == names.tolist()


@REPLICAS
def test_several_steps_at_once_and_parts(replicas: int, tmp_path: Path) -> None:
    strategy = strategy_of(replicas)
    x, section = made(450, "float32", tmp_path)
    model = model_of(strategy, "float32")
    model.compile(steps_per_execution=3)
    store, reached = PredictionStore(tmp_path / "parts", {}), []
    at_once = 3 * BATCH
    sink = PredictionSink(store, (), lambda done: min(at_once, 450 - done), 200, reached.append)
    with taking_predictions(sink.take):
        model.predict(data.from_config(section, BATCH, 0, strategy).batches, verbose=0)
    assert reached == [183, 366, 450] and store.done == 366
    sink.flush()
    assert store.done == 450 and [column.name for column in store.columns] == ["best", "name", "p"]
    rows = np.concatenate([arrays[2] for _, arrays in store.blocks()])
    np.testing.assert_allclose(rows, x @ model.get_weights()[0], rtol=2e-6, atol=1e-6)
    store.close()


def test_what_is_kept_after_a_while(tmp_path: Path) -> None:
    now = 0.0
    store = PredictionStore(tmp_path / "parts", {})
    sink = PredictionSink(store, (), lambda done: 2, None, lambda done: None, clock=lambda: now)
    sink.take(tf.zeros([2, 3]))
    assert store.done == 0
    now = PART_SECONDS
    sink.take(tf.zeros([2, 3]))
    assert store.done == 4
    store.close()


@pytest.mark.parametrize(
    ("outputs", "names", "expected"),
    [
        (tf.zeros([2, 3]), ("dense_7",), ["output"]),
        ([tf.zeros([2]), tf.zeros([2])], ("a", "b"), ["a", "b"]),
        ([tf.zeros([2]), {"x": tf.zeros([2])}], (), ["output_0", "output_1_x"]),
        ({"b": tf.zeros([2]), "a": [tf.zeros([2]), tf.zeros([2])]}, ("u", "v"), ["a_0", "a_1", "b"]),
    ],
)
def test_names(outputs: Any, names: tuple[str, ...], expected: list[str]) -> None:
    assert list(arrays_of(outputs, names, 2)) == expected


@pytest.mark.parametrize(
    ("outputs", "error", "said"),
    [
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), UnsupportedError, "'output' is ragged.*to_tensor"),
        (tf.sparse.eye(2), UnsupportedError, r"'output' is sparse.*tf.sparse.to_dense"),
        (tf.zeros([3]), UnsupportedError, r"the shape \(3,\) for a batch of 2 samples"),
        (tf.zeros([]), UnsupportedError, r"the shape \(\) for a batch"),
        (tf.zeros([2], tf.complex64), UnsupportedError, "'output' is complex64"),
        ({"index": tf.zeros([2])}, UsageError, "'index' is called index"),
        ({"a": [tf.zeros([2])], "a_0": tf.zeros([2])}, UsageError, "'a_0' come twice"),
    ],
)
def test_what_cannot_be_kept(outputs: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        arrays_of(outputs, (), 2)


def test_bfloat16_is_float32() -> None:
    assert arrays_of(tf.ones([2], tf.bfloat16), (), 2)["output"].dtype == np.float32
