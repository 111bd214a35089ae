"""Without a repair its case fails: so the repair does something, and the test of the case would see it go."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tests.devices.test_exactness import of_one_replica
from tests.devices.test_random_layers import masks
from tests.devices.test_refusals import REFUSED, compiled
from tests.exactness.cases import outcome
from tests.exactness.comparing import assert_same_case
from tests.exactness.table import classifier, numbers
from tests.marks import slow
from tfdist import keras_repairs
from tfdist.data.pipeline import build
from tfdist.data.sources import ArraySource
from tfdist.keras_repairs import refusals
from tfdist.keras_repairs.table import repairs
from tfdist.order.position import Position

SAMPLES = 65

TRAINER = "TensorFlowTrainer"

TAKEN_OUT = [
    # Keras reduces a batch over the replicas to learn its shape, of whatever kind it is.
    (f"{TRAINER}._maybe_symbolic_build", ["plain", "strings", "dict_inputs_and_outputs", "ragged_inputs"]),
    ("TFEpochIterator.__init__", ["sparse_inputs"]),
    (f"{TRAINER}._make_function", ["plain", "steps_per_execution", "xla", "own_step_with_means"]),
    ("Trainer._get_metrics_result_or_logs", ["own_step_with_means"]),
    ("Layer.add_loss", ["regularizers"]),
    ("Layer._get_own_losses", ["regularizers"]),
    ("Trainer.compute_loss", ["regularizers"]),
    ("keras.src.losses.loss.reduce_weighted_values", ["plain", "mask_of_an_embedding"]),
    ("keras.src.losses.loss.unscale_loss_for_distribution", ["plain"]),
    ("Mean.update_state", ["metrics_of_ones_own", "own_step_with_a_total"]),
    ("Sum.update_state", ["own_step_with_a_total"]),
    ("BatchNormalization._moments", ["synchronized_statistics_of_masked_inputs"]),
    ("keras.src.backend.tensorflow.nn.conv", ["convolutions_in_float32"]),
    ("keras.src.backend.tensorflow.nn.depthwise_conv", ["convolutions_in_float32"]),
    ("keras.src.backend.tensorflow.nn.separable_conv", ["convolutions_in_float32"]),
    ("keras.src.backend.tensorflow.nn.conv_transpose", ["transposed_convolution_in_float32"]),
    # Clipped, distilled and accumulated gradients are reduced first.
    ("BaseOptimizer.apply", ["clipnorm", "global_clipnorm", "clipvalue", "distillation", "gradient_accumulation"]),
    # An inf on the last replica.
    ("LossScaleOptimizer.apply", ["loss_scaling_with_an_overflow"]),
    ("LossScaleOptimizer._tf_apply", ["loss_scaling_with_an_overflow"]),
    ("LossScaleOptimizer.check_finite", ["loss_scaling_with_an_overflow_and_accumulation"]),
    ("Variable._direct_assign", ["loss_scaling"]),
    ("TFOptimizer._backend_update_step", ["plain", "gradient_accumulation"]),
    ("TFOptimizer._apply_weight_decay", ["gradient_accumulation_and_clipping"]),
    ("TFOptimizer._overwrite_model_variables_with_average_value", ["moving_average_that_overwrites"]),
    ("TFOptimizer._backend_increment_gradient_accumulators", ["gradient_accumulation"]),
    (f"{TRAINER}.train_on_batch", ["on_batch"]),
    (f"{TRAINER}.test_on_batch", ["on_batch"]),
    (f"{TRAINER}.predict_on_batch", ["on_batch"]),
    # A NaN on the last replica, which the logs of the first do not show.
    ("CallbackList.__init__", ["terminate_on_nan"]),
]
"""The repair to take out, and the cases that show it."""

IN_OTHER_TESTS = {
    "keras.src.backend.common.global_state.clear_session": "test_a_cleared_session_forgets_the_strategy",
    "TFEpochIterator._get_iterator": "test_one_replica_steps_without_data",
    "TFEpochIterator._enumerate_iterator": "test_an_epoch_that_goes_on_begins_again",
    "Layer.__call__": "test_nothing_is_compiled",
    "keras.src.losses.loss.scale_loss_for_distribution": "test_a_loss_outside_of_the_replicas_is_divided",
    "MetricsList.update_state": "test_metrics_are_not_refused",
    "keras.src.backend.tensorflow.nn._compute_moments": "test_statistics_of_no_sample_are_nan",
    "keras.src.backend.tensorflow.nn.max_pool": "test_a_maximum_of_no_sample_ends_the_process",
    "keras.src.backend.tensorflow.nn.adaptive_max_pool": "test_a_maximum_of_no_sample_ends_the_process",
    "SeedGenerator.next": "test_replicas_draw_the_same_masks",
    "BaseOptimizer.load_own_variables": "test_what_is_loaded_counts_on_each_replica",
    "BaseOptimizer.set_weights": "test_what_is_loaded_counts_on_each_replica",
}
"""The repair, and the test below that takes it out."""

ON_WORKERS = {
    "keras.src.utils.file_utils.get_file": "test_scripts.test_files_of_callbacks_and_downloads",
    "ArrayDataAdapter.get_tf_dataset": "test_scripts.test_a_script_that_seeds_nothing",
    f"{TRAINER}.make_predict_function": "test_exactness",
    "keras.src.backend.tensorflow.trainer.reduce_per_replica": "test_exactness",
    f"{TRAINER}.predict": "test_callbacks.test_predictions_on_the_chief_alone_when_asked",
    "ModelCheckpoint._save_model": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "BackupAndRestore.on_train_begin": "test_callbacks.test_epochs_that_are_trained_again",
    "BackupAndRestore._save_model": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "BackupAndRestore.on_train_end": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "keras.src.saving.saving_lib.save_model": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
    "keras.src.saving.saving_lib.save_weights_only": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
    "keras.src.legacy.saving.legacy_h5_format.save_model_to_hdf5": "test_scripts",
    "Model.export": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
    "SavedModelExportArchive.write_out": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
    "keras.src.saving.saving_api.load_model": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
    "keras.src.saving.saving_api.load_weights": "test_scripts.test_saved_by_the_chief_and_loaded_by_all",
}
"""What several devices of one process do not show, and the tests of `tests/workers` that do."""

SAME_NUMBERS = {
    "Loss.__call__": "spares a collective where the number of values follows from that of the samples",
    "SGD.update_step": "one pass over memory instead of several",
    "TFOptimizer.assign": "Keras's optimizers update their slots on each replica anyway; those of others need not",
    "TFOptimizer.assign_add": "as for assign",
    "TFOptimizer.assign_sub": "as for assign",
    f"{TRAINER}.fit": "tells that one is under way; see test_following",
    f"{TRAINER}.evaluate": "as for fit",
}
"""What changes no number of Keras's own, and why it is there."""


QUICK = ["plain", "sparse_inputs", "own_step_with_a_total", "convolutions_in_float32", "clipnorm", "global_clipnorm"]
QUICK += ["clipvalue", "gradient_accumulation", "moving_average_that_overwrites", "terminate_on_nan"]
"""Cases that take a few seconds; the others are left to the slow tests."""


@pytest.mark.bound(180)
@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) if name in QUICK else slow(path, name) for path, names in TAKEN_OUT for name in names],
)
def test_case_fails_without_its_repair(path: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = of_one_replica(name, SAMPLES)
    take_out(path, monkeypatch)
    with mirrored(3).scope(), pytest.raises(Exception):  # noqa: B017 (a wrong number, or whatever Keras then raises)
        assert_same_case(name, expected, outcome(name, SAMPLES))


def test_every_repair_is_tested_once() -> None:
    listed = [*(path for path, _ in TAKEN_OUT), *IN_OTHER_TESTS, *ON_WORKERS, *SAME_NUMBERS]
    assert sorted(listed) == sorted(repair.path for repair in repairs())
    assert set(IN_OTHER_TESTS.values()) <= set(globals())


def test_one_replica_steps_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """On several replicas what Keras does here depends on the moment; on one it always counts a step too many."""
    expected = of_one_replica("dataset_of_unknown_size", SAMPLES)
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    assert outcome("dataset_of_unknown_size", SAMPLES)["iterations"] > expected["iterations"]


def batches_of_rest() -> list[int]:
    """The numbers of the batches of an epoch of 5, of which 3 were done before."""
    x, y = numbers(20)
    with mirrored(2).scope():
        model = compiled()
        data = build(ArraySource(x, y), batch_size=4, strategy=mirrored(2), begin=Position(0, 3))
        seen: list[int] = []
        count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
        model.fit(data, verbose=0, callbacks=[count])
    return seen


def test_an_epoch_that_goes_on_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    assert batches_of_rest() == [3, 4]
    take_out("TFEpochIterator._enumerate_iterator", monkeypatch)
    assert batches_of_rest() == [0, 1, 2, 3, 4]


def test_a_cleared_session_forgets_the_strategy() -> None:
    """In a process of its own: TensorFlow's default graph would not be the same afterwards."""
    code = (
        "import keras, tensorflow as tf; from tfdist import keras_repairs; from tfdist.keras_repairs import install\n"
        "keras_repairs.install()\n"
        "keras.backend.clear_session = {function}\n"
        "with tf.distribute.MirroredStrategy(['CPU:0']).scope():\n"
        "    keras.backend.clear_session(); print(tf.distribute.has_strategy(), flush=True); os._exit(0)\n"
    )
    said = []
    for function in ("keras.backend.clear_session", "keras.backend.clear_session.__wrapped__"):
        command = [sys.executable, "-c", "import os; " + code.format(function=function)]
        said.append(subprocess.run(command, capture_output=True, text=True, timeout=50).stdout.strip())
    assert said == ["True", "False"]


class Unfit(keras.layers.Layer):
    """Calls what XLA cannot compile."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + 0 * tf.strings.to_number(tf.strings.as_string(tf.stop_gradient(inputs)), inputs.dtype)


def fit_unfit() -> None:
    x, y = numbers(8)
    model = keras.Sequential([keras.Input((6,)), Unfit(), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=True)
    model.fit(x.astype("float32"), y, verbose=0)


def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(3).scope():
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
            fit_unfit()
        take_out("Layer.__call__", monkeypatch)
        fit_unfit()


def test_a_loss_outside_of_the_replicas_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    loss, zeros, ones = keras.losses.MeanSquaredError(), np.zeros((4, 2), "float32"), np.ones((4, 2), "float32")
    with mirrored(3).scope():
        assert float(loss(zeros, ones)) == 1.0
        take_out("keras.src.losses.loss.scale_loss_for_distribution", monkeypatch)
        assert float(loss(zeros, ones)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["Largest", "MeanOfBatchMeans"])
def test_metrics_are_not_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `test_refusals` sees refused goes on, and gives a wrong number."""
    keras_repairs.install()
    take_out("MetricsList.update_state", monkeypatch)
    fit_refused(name)


@pytest.mark.parametrize("name", ["reduction=None", "set_distribution"])
def test_models_are_not_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TensorFlowTrainer._maybe_symbolic_build` looks at the model first; nothing else would stop it."""
    keras_repairs.install()
    monkeypatch.setattr(refusals, "check_model", lambda model: None)
    fit_refused(name)


def fit_refused(name: str) -> None:
    x, y = numbers(8)
    with mirrored(2).scope(), contextlib.ExitStack() as ended:
        if name == "set_distribution":
            keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
            ended.callback(keras.distribution.set_distribution, None)
        model = REFUSED.get(name, compiled)()
        model.fit(x.astype("float32"), y, verbose=0)


def normalized() -> bool:
    """Whether the statistics are finite after batches of which two replicas had no sample."""
    x, y = numbers(SAMPLES)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(3, activation="softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x.astype("float32"), y, batch_size=32, verbose=0)
    return all(np.isfinite(weight).all() for weight in model.get_weights())


def test_statistics_of_no_sample_are_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(3).scope():
        assert normalized()
        take_out("keras.src.backend.tensorflow.nn._compute_moments", monkeypatch)
        assert not normalized()


POOLING = """
import tests.devices.conftest
from keras.src.backend.tensorflow import nn
from tests.devices.mirrored import mirrored
from tests.exactness.cases import outcome
from tfdist import keras_repairs

keras_repairs.install()
for name in {taken_out}:
    setattr(nn, name, getattr(nn, name).__wrapped__)
with mirrored(3).scope():
    outcome("max_pooling_in_float32", {samples})
print("done", flush=True)
"""


def test_a_maximum_of_no_sample_ends_the_process() -> None:
    said = []
    for taken_out in ([], ["max_pool"], ["adaptive_max_pool"]):
        code = POOLING.format(taken_out=taken_out, samples=SAMPLES)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
        said.append(done.stdout.strip())
    assert said == ["done", "", ""]


def test_replicas_draw_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(set(map(tuple, masks(3, seed=3)))) == 6
    take_out("SeedGenerator.next", monkeypatch)
    monkeypatch.setattr(keras_repairs, "install", lambda: None)
    assert len(set(map(tuple, masks(3, seed=3)))) == 2


def held_after_loading(name: str) -> float:
    """What three replicas together hold of a gradient of 1 that one of them had accumulated when it was saved."""
    with mirrored(3).scope():
        model = classifier()
        optimizer = keras.optimizers.SGD(gradient_accumulation_steps=2)
        optimizer.build(model.trainable_variables)
        saved = [np.ones(variable.shape) for variable in optimizer.variables]
        load = getattr(optimizer, name)
        load({str(i): value for i, value in enumerate(saved)} if name == "load_own_variables" else saved)
        copies = mirrored(3).experimental_local_results(optimizer._accumulated_gradients[1].value)
    return sum(float(copy.numpy()[0]) for copy in copies)


@pytest.mark.parametrize("name", ["load_own_variables", "set_weights"])
def test_what_is_loaded_counts_on_each_replica(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    assert held_after_loading(name) == 1.0
    take_out(f"BaseOptimizer.{name}", monkeypatch)
    assert held_after_loading(name) == 3.0


def take_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts Keras's own function back until the test ends."""
    (repair,) = (repair for repair in repairs() if repair.path == path)
    repaired = getattr(repair.owner, repair.name)
    for owner in (repair.owner, *repair.also):
        monkeypatch.setattr(owner, repair.name, repaired.__wrapped__)
