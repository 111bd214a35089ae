"""Without a repair its case fails: so the repair does something, and the test of the case would see it go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.devices import (
    test_custom_gradients,
    test_own_steps,
    test_python_draws,
    test_random_numbers,
    test_recomputation,
    test_single_repairs,
    test_thread_attributes,
    test_unseeded_draws,
    test_writes,
)
from tests.devices.references import of_one_replica
from tests.devices.repair_removal import take_out
from tests.devices.shown_repairs import TAKEN_OUT, TRAINER
from tests.exactness.cases import is_evaluated_by_default, names_by_default, outcome
from tests.exactness.comparison import assert_same_case
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.random_numbers import python_draws
from tfdist.keras_repairs.registry import repairs
from tfdist.keras_repairs.writes.write_functions import TAKING, WRITING

SLOW = bool(os.environ.get("TFDIST_SLOW_TESTS"))
SAMPLES = 65

WORKERS = Path(__file__).parents[1] / "workers"

SUMS = "CollectiveAllReduce"
DISTRIBUTION = "keras.src.backend.tensorflow.distribution_lib"

IN_OTHER_TESTS = {
    "keras.src.backend.common.global_state.clear_session": "test_a_cleared_session_forgets_the_strategy",
    "TFEpochIterator._get_iterator": "test_one_replica_steps_without_data",
    "TFEpochIterator._enumerate_iterator": "test_an_epoch_that_goes_on_begins_again",
    "Trainer._resolve_auto_jit_compile": "test_auto_compiles_nothing_under_a_strategy",
    "Trainer.compile": "test_a_script_is_not_overruled",
    "Layer.__call__": "test_nothing_is_compiled",
    "Layer._clear_losses": "test_a_layer_that_is_called_twice",
    "keras.src.losses.loss.scale_loss_for_distribution": "test_a_loss_outside_of_the_replicas_is_divided",
    "keras.src.backend.tensorflow.nn._compute_moments_sync": "test_synchronized_moments_lose_their_digits",
    "SeedGenerator.next": "test_replicas_draw_the_same_masks",
    "keras.src.trainers.compile_utils.get_loss": "test_a_loss_that_reduces_itself_is_that_of_a_replica",
    "_WrapperFunction._call_flat": "test_what_was_exported_cannot_be_called",
    "BaseOptimizer.load_own_variables": "test_what_is_loaded_counts_on_each_replica",
    "BaseOptimizer.set_weights": "test_what_is_loaded_counts_on_each_replica",
}
"""The repair, and the test of `test_single_repairs` that takes it out."""

OF_TENSORFLOW = {
    "tensorflow.python.framework.random_seed.get_seed": "test_seeded_numbers_of_tensorflow_are_refused",
    **{
        f"Generator.{name}": "test_generators_of_tensorflow_draw_as_on_one_device"
        for name in (*test_random_numbers.OF_GENERATORS, "_prepare_key_counter")
    },
    "Generator.binomial": "test_a_generator_that_takes_nobody_knows_what_is_refused",
    "tensorflow.python.ops.while_loop.while_loop": "test_seeds_that_the_batch_decides_on_are_refused",
    "tensorflow.python.ops.control_flow_switch_case._indexed_case_helper":
        "test_seeds_that_the_batch_decides_on_are_refused",
    "tensorflow.python.ops.cond.cond": "test_seeds_that_the_batch_decides_on_are_refused",
}  # fmt: skip
"""The repair, and the test of `test_random_numbers` that takes it out."""

OF_PYTHON = {
    f"{module.__name__}.{name}": "test_without_the_refusal_numbers_are_others"
    for module, names in python_draws.NAMES.items()
    for name in names
}
"""The repair, and the test of `test_python_draws` that takes one of their kind out."""

IN_STEPS = {
    "GradientTape.gradient": "test_a_step_that_clips_is_seen_by_larger_gradients_alone",
}
"""The repair, and the test of `test_own_steps` that takes it out."""

UNSEEDED = {
    f"tensorflow.python.ops.gen_random_ops.{operation}":
        "test_a_draw_without_rows_of_samples_is_the_same_on_every_replica"
    for _, operation in test_unseeded_draws.FIXED.values()
}  # fmt: skip
"""The repair, and the test of `test_unseeded_draws` that takes it out."""

OF_GRADIENTS = {
    f"tensorflow.python.ops.custom_gradient.{name}": "test_without_the_repair_numbers_are_others"
    for name in ("_graph_mode_decorator", "_eager_mode_decorator")
}
"""The repair, and the test of `test_custom_gradients` that takes it out."""

RECOMPUTED = {
    "keras.src.backend.tensorflow.core.remat": "test_without_the_repair_keras_refuses",
}
"""The repair, and the test of `test_recomputation` that takes it out."""

IN_THREADS = {
    "tensorflow.python.distribute.mirrored_run._call_for_each_replica": "test_the_dtype_policy_in_a_step",
    "keras.src.random.seed_generator.global_seed_generator":
        "test_without_the_spare_generator_each_replica_has_its_own",
}  # fmt: skip
"""The repair, and the test of `test_thread_attributes` that takes it out."""

WRITES = {
    **{
        f"{operation.owner.__name__}.{operation.name}": "test_an_operation_writes_nothing_in_a_trial"
        for operation in WRITING
        if operation.name not in ("queue_enqueue_v2", "lookup_table_insert_v2")
    },
    **{
        f"{operation.owner.__name__}.{operation.name}": "test_nothing_is_taken_away_in_a_trial"
        for operation in TAKING
    },
    **{
        path: "test_without_the_repair_other_things_are_written"
        for _, paths in test_writes.KINDS.values()
        for path in paths
    },
}
"""The repair, and the test of `test_writes` that takes it out, or shows what its operation does."""

ON_WORKERS = {
    **{
        path: "test_tensor_parallel.test_numbers_of_one_device"
        for path in (
            *(f"keras.src.backend.tensorflow.numpy.{name}" for name in ("matmul", "einsum", "take", "repeat")),
            "keras.src.backend.tensorflow.nn.conv",
            "keras.src.backend.tensorflow.nn.silu",
            "keras.src.backend.tensorflow.nn.sparse_categorical_crossentropy",
            "keras.src.backend.tensorflow.nn.categorical_crossentropy",
            "FuncGraph._create_op_internal",
            "FuncGraph.control_dependencies",
            "GradientTape._push_tape",
            "GradientTape.watch",
        )
    },
    "tensorflow.python.ops.parallel_for.control_flow_ops.pfor": "test_context.test_numbers_of_one_device",
    "keras.src.utils.file_utils.get_file": "test_scripts_together.test_files_of_callbacks_and_downloads",
    "ArrayDataAdapter.get_tf_dataset": "test_scripts_together.test_a_script_that_seeds_nothing",
    f"{TRAINER}.make_predict_function": "test_exactness",
    "keras.src.backend.tensorflow.trainer.reduce_per_replica": "test_exactness",
    f"{TRAINER}.predict": "test_callbacks.test_predictions_on_the_chief_alone_when_asked",
    "ModelCheckpoint._save_model": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "BackupAndRestore.on_train_begin": "test_callbacks.test_epochs_that_are_trained_again",
    "BackupAndRestore._save_model": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "BackupAndRestore.on_train_end": "test_callbacks.test_files_are_the_chiefs_and_whole",
    "keras.src.saving.saving_lib.save_model": "test_scripts_together.test_saved_by_the_chief",
    "keras.src.saving.saving_lib.save_weights_only": "test_scripts_together.test_saved_by_the_chief",
    "keras.src.legacy.saving.legacy_h5_format.save_model_to_hdf5": "test_scripts_together.test_saved_by_the_chief",
    "Model.export": "test_scripts_together.test_saved_by_the_chief",
    f"{SUMS}Extended._get_variable_creator_initial_value": "test_collectives.test_each_worker_gets_what_it_should",
    f"{SUMS}._all_reduce": "test_collectives.test_each_worker_gets_what_it_should",
    "CollectiveReplicaLauncher._all_gather": "test_empty_rows.test_numbers_of_one_worker",
    f"{SUMS}._all_reduce_per_replica_values": "test_shared_memory_faults.test_nothing_needs_room_in_dev_shm",
    "SavedModelExportArchive.write_out": "test_scripts_together.test_saved_by_the_chief",
    "keras.src.saving.saving_api.load_model": "test_scripts_together.test_saved_by_the_chief",
    "keras.src.saving.saving_api.load_weights": "test_scripts_together.test_saved_by_the_chief",
    **{
        path: "test_scripts.test_what_the_chief_alone_saves_and_all_restore"
        for path in (
            "Checkpoint._maybe_create_save_counter",
            "Checkpoint._write",
            "tensorflow.python.distribute.values_util.get_on_read_saveable",
            "tensorflow.python.saved_model.save.save",
        )
    },
    **{
        f"{DISTRIBUTION}.{name}": "test_model_parallel.test_numbers_of_one_device"
        for name in ("list_devices", "get_device_count", "initialize", "distribute_tensor")
    },
    "Layer.add_weight": "test_sharding.test_numbers_of_one_device",
    "Variable._deferred_initialize": "test_sharding.test_what_is_saved_is_what_one_device_saves",
    "BaseOptimizer.build": "test_sharding.test_what_is_saved_is_what_one_device_saves",
    "BaseOptimizer.add_variable": "test_sharding.test_numbers_of_one_device",
    "TFOptimizer.add_variable_from_reference": "test_sharding.test_what_is_saved_is_what_one_device_saves",
    "TFOptimizer._var_key": "test_sharding.test_numbers_of_one_device",
    "BaseOptimizer._clip_gradients": "test_sharded_embeddings.test_without_a_repair_it_is_not_exact",
    "BaseOptimizer._update_model_variables_moving_average": "test_sharding.test_numbers_of_one_device",
    "SwapEMAWeights._tf_swap_variables": "test_sharding.test_numbers_of_one_device",
    "SwapEMAWeights._tf_finalize_ema_values": "test_sharding.test_numbers_of_one_device",
    "Embedding.build": "test_sharded_embeddings.test_what_is_saved_is_what_one_device_saves",
    "Embedding.call": "test_sharded_embeddings.test_without_a_repair_it_is_not_exact",
    "Adagrad.update_step": "test_sharded_embeddings.test_numbers_of_one_device",
}
"""What several devices of one process do not show, and the tests of `tests/workers` that do."""

SAME_NUMBERS = {
    f"{DISTRIBUTION}.num_processes": "Keras before 3.15 asks for it; see test_keras_distribution",
    f"{DISTRIBUTION}.process_id": "as for num_processes",
    "BaseOptimizer.__init__": "only for optimizers with an `apply` of their own; see test_first_step",
    **{
        f"{kind}.{name}": "only where each replica makes a whole step; see test_first_step"
        for kind in ("DistributedVariable", "SyncOnReadVariable")
        for name in ("assign", "assign_add", "assign_sub")
    },
    "DistributedVariable.__complex__": "as for `__float__`; see test_variable_conversions",
    "DistributedVariable.__bool__": "see test_variable_conversions",
    "SyncOnReadVariable._get": "notes what is refused; see test_step_logs",
    "SyncOnReadVariable.value": "as for `_get`",
    "tensorflow.python.ops.gen_nn_ops.conv2d_backprop_filter":
        "without it the process may end; see test_strided_convolutions",
    **{
        f"tensorflow.python.ops.gen_nn_ops.{name}": "without it the process may end; see test_empty_batches"
        for name in ("conv2d", "conv3d", "depthwise_conv2d_native", "max_pool", "max_pool3d")
    },
    "SGD.update_step": "one pass over memory instead of several; see test_optimizers_in_custom_loops",
    "Adam.update_step": "as for SGD; see test_large_updates",
    "keras.src.backend.tensorflow.nn.gelu": "one operation on slices instead of several; see test_keras_activations",
    "BaseImagePreprocessingLayer.transform_single_image": "images one by one; see test_own_loops",
    "LossScaleOptimizer.scale_loss": "only for loops of one's own; see test_optimizers_in_custom_loops",
    "TFOptimizer.assign": "only for the user's own optimizers; see test_optimizers_in_custom_loops",
    "TFOptimizer.assign_add": "as for assign",
    "TFOptimizer.assign_sub": "as for assign",
    "tensorflow.python.autograph.impl.conversion.is_allowlisted": "AutoGraph leaves tfdist's own code as it is",
    "StrategyBase.run": "says what a loop of one's own gets wrong; see test_own_loops",
    "ReplicaContextBase.all_reduce": "exchanges of loops that are tried out; see test_own_loops",
    "ReplicaContext.all_gather": "likewise",
    "ReplicaContextBase.merge_call": "likewise",
    "ConcreteFunction._call_flat": "ends trials of loops; see test_own_loops",
    **{
        f"tensorflow.python.ops.gen_resource_variable_ops.{name}": "likewise"
        for name in (
            *(f"assign{how}_variable_op" for how in ("", "_add", "_sub")),
            *(f"resource_scatter_{how}" for how in ("add", "div", "max", "min", "mul", "sub", "update")),
        )
    },
    **{
        f"tensorflow.python.ops.gen_state_ops.resource_scatter_nd_{how}": "likewise"
        for how in ("add", "max", "min", "sub", "update")
    },
    "keras.src.backend.tensorflow.numpy.add": "for loops of one's own; see test_empty_batches",
    f"{TRAINER}.fit": "notifies a listener; see test_fit_listeners",
    f"{TRAINER}.evaluate": "as for fit",
}
"""What changes no number of Keras's own, and why it is there."""


QUICK = ["plain", "sparse_arrays", "own_step_with_a_total", "clipnorm"]
QUICK += ["batch_norm_of_masked_inputs"]
QUICK += ["clipvalue", "gradient_accumulation", "moving_average_that_overwrites", "terminate_on_nan"]
QUICK += ["metrics_that_begin_with_samples"]
"""Cases that take a few seconds; the others are left to the slow tests."""


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) if name in QUICK else slow(path, name) for path, names in TAKEN_OUT for name in names],
)
def test_case_fails_without_its_repair(path: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As the test of the case has computed it.
    expected = of_one_replica(name, SAMPLES, of_training_alone=not SLOW and not is_evaluated_by_default(name))
    take_out(path, monkeypatch)
    with mirrored(3).scope(), pytest.raises(Exception):  # noqa: B017 (a wrong number, or whatever Keras then raises)
        received = outcome(name, SAMPLES, of_training_alone=True)
        assert_same_case(name, {part: expected[part] for part in received}, received)


def test_every_repair_has_a_case_in_the_default_tests() -> None:
    compared = {*names_by_default("devices"), *names_by_default("workers")}
    assert [path for path, names in TAKEN_OUT if compared.isdisjoint(names)] == []


def test_every_repair_is_tested_once() -> None:
    elsewhere = [*IN_OTHER_TESTS, *IN_STEPS, *UNSEEDED, *IN_THREADS, *OF_TENSORFLOW, *OF_PYTHON, *ON_WORKERS]
    elsewhere += [*SAME_NUMBERS, *RECOMPUTED, *WRITES, *OF_GRADIENTS]
    listed = [*(path for path, _ in TAKEN_OUT), *elsewhere]
    assert sorted(listed) == sorted(repair.path for repair in repairs())
    assert set(IN_OTHER_TESTS.values()) <= set(vars(test_single_repairs))
    assert set(IN_STEPS.values()) <= set(vars(test_own_steps))
    assert set(UNSEEDED.values()) <= set(vars(test_unseeded_draws))
    assert set(OF_GRADIENTS.values()) <= set(vars(test_custom_gradients))
    assert set(RECOMPUTED.values()) <= set(vars(test_recomputation))
    assert set(WRITES.values()) <= set(vars(test_writes))
    assert set(IN_THREADS.values()) <= set(vars(test_thread_attributes))
    assert set(OF_TENSORFLOW.values()) <= set(vars(test_random_numbers))
    assert set(OF_PYTHON.values()) <= set(vars(test_python_draws))
    for test in ON_WORKERS.values():
        file, _, name = test.partition(".")
        assert f"def {name or 'test_'}" in (WORKERS / f"{file}.py").read_text(), test
