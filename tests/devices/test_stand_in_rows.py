"""A replica without samples works on a row that stands in for them, and nothing of what it computes counts."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.references import of_one_replica
from tests.exactness.cases import outcome
from tests.exactness.comparison import assert_same
from tests.exactness.small_batch_cases import OfOwnMetric
from tests.exactness.table import BATCH, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored
from tfdist.keras_repairs.base.batch_rows import rows, with_row_of_zeros
from tfdist.keras_repairs.base.replica_step import current_step, this_step
from tfdist.keras_repairs.base.step_records import BatchShare
from tfdist.keras_repairs.inputs import data_adapters
from tfdist.keras_repairs.loop import predictions
from tfdist.keras_repairs.optimizer import gradient_reduction, variable_updates

pytestmark = pytest.mark.usefixtures("repaired")

SAMPLES = 65


def without_stand_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica without samples gets no row."""
    monkeypatch.setattr(data_adapters, "with_stand_in", lambda first, end: (first, end))
    monkeypatch.setattr(data_adapters, "_functions_of", data_adapters._functions_of.__wrapped__)  # traced anew


@pytest.mark.parametrize(
    "name", ["ctc_loss", "operations_that_take_no_row", slow("operations_that_take_no_row_eagerly")]
)
def test_case_fails_without_the_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_stand_in_rows(monkeypatch)
    with mirrored(3).scope(), pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        outcome(name, SAMPLES, of_training_alone=True)


def test_predictions_of_the_row_would_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = of_one_replica("operations_that_take_no_row", SAMPLES)
    monkeypatch.setattr(predictions, "without_stand_in", lambda structure: structure)
    with mirrored(3).scope():
        received = outcome("operations_that_take_no_row", SAMPLES)
    assert [len(part) for part in expected["predict"]] == [65]
    assert [len(part) for part in received["predict"]] == [67]


PROGRAM = """
import sys
import tests.devices.conftest
import pytest
from tests.helpers.mirrored import mirrored
from tests.devices.references import of_one_replica
from tests.devices.test_stand_in_rows import without_stand_in_rows
from tests.exactness.cases import outcome
from tests.exactness.comparison import assert_same_case

name, samples, is_taken_out = sys.argv[1:]
expected = of_one_replica(name, int(samples))
if is_taken_out == "True":
    without_stand_in_rows(pytest.MonkeyPatch())
print("begun", flush=True)
with mirrored(3).scope():
    received = outcome(name, int(samples), of_training_alone=True)
    assert_same_case(name, {part: expected[part] for part in received}, received)
print("same", flush=True)
"""

SPATIAL = [
    "convolutions_in_float32",
    "transposed_convolution_in_float32",
    "max_pooling_in_float32",
    "layers_that_run_eagerly",
]


def compared(name: str, onednn: bool, is_taken_out: bool) -> subprocess.CompletedProcess[str]:
    """Compares a case on three replicas with one, in a process of its own.

    TensorFlow takes oneDNN's kernels by itself on some processors alone (x86-64 with AVX-512 and VNNI, for instance),
    and decides at its import.
    """
    command = [sys.executable, "-c", PROGRAM, name, str(SAMPLES), str(is_taken_out)]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": str(int(onednn))}
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPATIAL)
@pytest.mark.parametrize("onednn", [False, True])
def test_exact_with_either_kernels(name: str, onednn: bool) -> None:
    done = compared(name, onednn, is_taken_out=False)
    assert done.stdout == "begun\nsame\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", SPATIAL[:3])
def test_kernels_fail_on_no_row(name: str) -> None:
    """Given none, oneDNN's return the shape of their input; the gradient of a maximum of that ends the process."""
    done = compared(name, onednn=True, is_taken_out=True)
    assert done.stdout == "begun\n", done.stderr
    assert done.returncode != 0, done.stderr


@functools.cache
def of_zeros(replicas: int) -> dict[str, Any]:
    """That training on so many replicas, with nothing replaced. Do not change it."""
    if replicas == 1:
        return fitted_as_distributed(None)
    with mirrored(replicas).scope():
        return fitted_as_distributed(mirrored(replicas))


def fitted_as_distributed(strategy: tf.distribute.Strategy | None) -> dict[str, Any]:
    """A training on what a script has distributed itself, where zeros stand in, of which the model makes no number."""
    keras.utils.set_random_seed(3)
    x, y = numbers(SAMPLES)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    inputs = keras.Input((6,))
    unit = inputs / keras.ops.norm(inputs, axis=1, keepdims=True)
    # A plain square root has no gradient at zero either.
    hidden = keras.layers.Dense(8, activation="tanh", activity_regularizer="l2")(keras.ops.sqrt(keras.ops.abs(unit)))
    model = OfOwnMetric(inputs, keras.layers.Dense(3, activation="softmax")(hidden))
    model.compile(keras.optimizers.SGD(0.1))
    data = batches if strategy is None else strategy.experimental_distribute_dataset(batches)
    history = model.fit(data, epochs=2, verbose=0)
    return {"history": history.history, "weights": [weight.tolist() for weight in model.get_weights()]}


def _as_product(gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    return [gradient * this_step().share.fraction(gradient.dtype) for gradient in gradients]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (BatchShare, "of_samples", lambda share, value: value * tf.cast(share.samples > 0, value.dtype)),
        (gradient_reduction, "weighted", _as_product),
        (variable_updates, "_of_samples", lambda variable, value: value),
    ],
    ids=["logs", "gradients", "metrics"],
)
def test_what_it_yields_is_left_out_by_selection(
    owner: Any, name: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = of_zeros(1)
    assert np.isfinite(expected["history"]["loss"]).all()
    assert_same(expected, of_zeros(3))
    with mirrored(3).scope():
        monkeypatch.setattr(owner, name, replacement)
        with pytest.raises(AssertionError):
            assert_same(expected, fitted_as_distributed(mirrored(3)))


class NotingStep(keras.Sequential):
    """Notes of each traced step whether it looks for samples."""

    def __init__(self) -> None:
        super().__init__([keras.layers.Dense(1)])
        self.noted: set[bool] = set()

    def train_step(self, data: Any) -> dict[str, Any]:
        step = current_step()
        # Where the step is tried out, the samples are known.
        if step is not None and tf.get_static_value(step.share.total) is None:
            self.noted.add(not step.share.surely_has_samples)
        return super().train_step(data)


@pytest.mark.parametrize("samples", [64, 66, slow(67)])
@pytest.mark.parametrize("kind", ["arrays", "pipeline", "dataset", "full batches", "own batches"])
def test_steps_look_for_samples_only_where_a_replica_may_have_none(kind: str, samples: int) -> None:
    x = np.ones((samples, 3))
    with mirrored(3).scope():
        model = NotingStep()
        model.compile("sgd", "mse")
        if kind == "arrays":
            model.fit(x, x[:, :1], batch_size=32, epochs=1, verbose=0)
        elif kind == "pipeline":
            model.fit(tfdist.data.arrays(x, x[:, :1], batch_size=32), epochs=1, verbose=0)
        else:
            batches = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(32, kind == "full batches")
            strategy = tf.distribute.get_strategy()
            is_own = kind == "own batches"
            model.fit(strategy.experimental_distribute_dataset(batches) if is_own else batches, epochs=1, verbose=0)
    may_have_none = {"arrays": samples == 66, "pipeline": samples == 66, "full batches": False}
    assert model.noted == {may_have_none.get(kind, True)}


KINDS = {
    "dense": tf.TensorSpec([None, 3]),
    "words": tf.TensorSpec([None], tf.string),
    "ragged": tf.RaggedTensorSpec([None, None, None], tf.float32, ragged_rank=2),
    "sparse": tf.SparseTensorSpec([None, 3], tf.int32),
}


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_row_of_zeros_of_each_kind(is_compiled: bool) -> None:
    sparse = tf.sparse.from_dense([[0, 1, 0], [2, 0, 3]])
    ragged = tf.ragged.constant([[[1.0], []], [[2.0, 3.0]]], dtype=tf.float32)
    two = {"dense": tf.ones((2, 3)), "words": tf.constant(["a", "b"]), "ragged": ragged, "sparse": sparse}
    none = {**{name: part[:0] for name, part in two.items() if name != "sparse"}}
    none["sparse"] = tf.sparse.slice(sparse, [0, 0], [0, 3])
    fill = tf.function(with_row_of_zeros, input_signature=[KINDS]) if is_compiled else with_row_of_zeros
    made = fill(two)
    assert int(rows(made)) == 2
    assert made["ragged"].to_list() == ragged.to_list()
    made = fill(none)
    assert made["dense"].numpy().tolist() == [[0, 0, 0]]
    assert made["words"].numpy().tolist() == [b""]
    assert made["ragged"].to_list() == [[]]
    assert tf.sparse.to_dense(made["sparse"]).numpy().tolist() == [[0, 0, 0]]


def test_data_without_samples() -> None:
    def results() -> list[Any]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        x, y = np.zeros([0, 3], "float32"), np.zeros([0, 1], "float32")
        evaluated, history = model.evaluate(x, y, verbose=0), model.fit(x, y, verbose=0).history
        return [evaluated, history, model.train_on_batch(x, y), *model.get_weights()]

    expected = results()
    with mirrored(2).scope(), checking(mirrored(2)):
        found = results()
    assert (found[0], found[1]) == (expected[0], expected[1]) == ([], {})
    for one, other in zip(expected[2:], found[2:], strict=True):
        np.testing.assert_array_equal(other, one)
