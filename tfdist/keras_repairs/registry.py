"""The table of repairs: which functions of Keras and TensorFlow are replaced, and by what."""

from __future__ import annotations

import functools

import keras
import tensorflow as tf
from keras.src import datasets
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import core, nn
from keras.src.backend.tensorflow import distribution_lib as backend_distribution
from keras.src.backend.tensorflow import numpy as numpy_functions
from keras.src.backend.tensorflow import optimizer as optimizer_module
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.callbacks import callback_list as callback_list_module
from keras.src.layers import layer as layer_module
from keras.src.layers.preprocessing.image_preprocessing import base_image_preprocessing_layer
from keras.src.legacy.saving import legacy_h5_format
from keras.src.losses import loss as loss_module
from keras.src.losses import losses as losses_module
from keras.src.metrics import reduction_metrics
from keras.src.models import model as model_module
from keras.src.optimizers import base_optimizer
from keras.src.random import seed_generator
from keras.src.saving import saving_api, saving_lib
from keras.src.trainers import compile_utils
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_data_adapter, tf_dataset_adapter
from keras.src.utils import file_utils
from tensorflow.python.autograph.impl import conversion
from tensorflow.python.checkpoint import checkpoint
from tensorflow.python.distribute import (
    cross_device_ops,
    cross_device_utils,
    distribute_lib,
    mirrored_run,
    values,
    values_util,
)
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
from tensorflow.python.eager import backprop
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import (
    custom_gradient,
    gen_nn_ops,
    gen_resource_variable_ops,
    gen_state_ops,
    logging_ops,
    nn_impl_distribute,
    script_ops,
    summary_ops_v2,
)
from tensorflow.python.ops.parallel_for import control_flow_ops as parallel_loops
from tensorflow.python.saved_model import load, save

from tfdist.keras_repairs import recomputation
from tfdist.keras_repairs.base import global_devices, global_seeds, strategy_reductions, thread_attributes, variables
from tfdist.keras_repairs.callbacks import backup_and_restore, callback_list
from tfdist.keras_repairs.coupling import batch_branches, batch_limits, custom_gradients, layer_calls, loss_treatment
from tfdist.keras_repairs.coupling import traced_calls as traced_draws
from tfdist.keras_repairs.coupling.trials import foreign_variables, kept_tensors
from tfdist.keras_repairs.coupling.trials.steps import step_capture
from tfdist.keras_repairs.files import checkpoint_objects, downloads, model_saving
from tfdist.keras_repairs.forward import (
    added_losses,
    batch_histograms,
    batch_normalization,
    empty_batches,
    global_batch_metrics,
    loss_reduction,
    metrics,
    strided_convolutions,
    xla,
)
from tfdist.keras_repairs.inputs import array_shuffle, class_weights, epoch_iterator, symbolic_build
from tfdist.keras_repairs.loop import (
    compilation,
    decorated_functions,
    fit_listeners,
    on_batch,
    predictions,
    step_logs,
    trainer,
)
from tfdist.keras_repairs.model_checks import own_loops
from tfdist.keras_repairs.optimizer import (
    averages,
    clipping,
    gradient_accumulation,
    gradient_reduction,
    variable_updates,
)
from tfdist.keras_repairs.random_repairs import of_random_numbers
from tfdist.keras_repairs.repair import Function, Repair, RepairHooks
from tfdist.keras_repairs.sharded_embeddings import embedding_layers
from tfdist.keras_repairs.sharded_optimizer import slot_making
from tfdist.keras_repairs.sharded_parameters import cut_variable, layer_scopes, second_gathers, summed_gradients
from tfdist.keras_repairs.sharding_policies import loaded_state
from tfdist.keras_repairs.tensor_parallel import (
    created_operations,
    keras_activations,
    keras_products,
    position_slices,
    vocabulary_rules,
)
from tfdist.keras_repairs.writes import write_functions

try:
    from keras.src.export.saved_model_export_archive import SavedModelExportArchive
except ImportError:  # Keras 3.12 and 3.13
    from keras.src.export.saved_model import ExportArchive as SavedModelExportArchive

_RESULT = "_get_metrics_result_or_logs"
_OVERWRITE = "_overwrite_model_variables_with_average_value"
_ACCUMULATE = "_backend_increment_gradient_accumulators"

_TF_NN = (tf.nn, tf.compat.v1.nn, tf.compat.v2.nn)
"""TensorFlow's public names of `nn_impl_distribute`."""

_DATASETS = tuple(
    module for name, module in vars(datasets).items() if not name.startswith("_") and hasattr(module, "get_file")
)
"""Keras's modules that hold a `get_file` of their own."""


def repairs(hooks: RepairHooks | None = None) -> tuple[Repair, ...]:
    """Every repair, in the order of a run."""
    hooks = hooks or RepairHooks()
    return (
        *_of_data(hooks),
        *of_random_numbers(hooks.imposed_seed),
        *_of_the_forward_pass(),
        *_of_losses(),
        *_of_kernels(),
        *_of_trials(),
        *_of_variables(),
        *_of_gradients(hooks),
        *_of_results(hooks),
        *_of_writes(),
        *_of_files(hooks),
    )


def _of_data(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of set-up and data, and of how a model's steps are built and run over the data."""
    model, iterator = trainer_module.TensorFlowTrainer, trainer_module.TFEpochIterator
    make_function = functools.partial(trainer.make_function, observer=hooks.on_batch, listener=hooks.listener)
    make_predict_function = functools.partial(trainer.make_predict_function, listener=hooks.listener)
    fit = functools.partial(
        fit_listeners.notifying, call="fit", listener=hooks.listener, most_epochs=hooks.most_epochs
    )
    evaluate = functools.partial(fit_listeners.notifying, call="evaluate", listener=hooks.listener)
    arrays = array_data_adapter.ArrayDataAdapter
    array_dataset = functools.partial(array_shuffle.array_dataset, imposed_seed=hooks.imposed_seed)
    return (
        Repair(
            global_state,
            "clear_session",
            thread_attributes.clear_session,
            (keras.utils, keras.backend),
        ),
        Repair(mirrored_run, "_call_for_each_replica", thread_attributes.call_for_each_replica),
        Repair(mirrored_run._MirroredReplicaContext, "_merge_call", kept_tensors.merge_call),
        Repair(seed_generator, "global_seed_generator", global_seeds.global_seed_generator),
        Repair(file_utils, "get_file", downloads.get_file, (keras.utils, *_DATASETS)),
        Repair(arrays, "get_tf_dataset", array_dataset),
        Repair(tf_dataset_adapter.TFDatasetAdapter, "__init__", class_weights.dataset_adapter_init, is_checked=False),
        Repair(iterator, "__init__", epoch_iterator.epoch_iterator_init),
        Repair(iterator, "_get_iterator", epoch_iterator.epoch_iterator_source),
        Repair(iterator, "_enumerate_iterator", epoch_iterator.epoch_steps),
        Repair(compile_utils, "get_loss", loss_treatment.get_loss),
        Repair(model, "_maybe_symbolic_build", symbolic_build.maybe_symbolic_build),
        Repair(base_trainer.Trainer, "_resolve_auto_jit_compile", compilation.resolve_auto),
        Repair(base_trainer.Trainer, "compile", compilation.compile_as_asked, is_checked=False),
        Repair(model, "_make_function", make_function),
        Repair(polymorphic_function.Function, "__call__", decorated_functions.call),
        Repair(conversion, "is_allowlisted", decorated_functions.is_allowlisted),
        Repair(model, "make_predict_function", make_predict_function),
        Repair(distribute_lib.StrategyBase, "run", own_loops.run, is_checked=False),
        Repair(model, "fit", fit),
        Repair(model, "evaluate", evaluate),
    )


def _of_the_forward_pass() -> tuple[Repair, ...]:
    """Repairs of layers and metrics, and of the functions that they compute with."""
    return (
        Repair(layer_module.Layer, "__call__", _layer_call),
        Repair(core, "remat", recomputation.remat),
        Repair(backend_distribution, "list_devices", global_devices.list_devices),
        Repair(backend_distribution, "get_device_count", global_devices.get_device_count),
        Repair(backend_distribution, "num_processes", global_devices.num_processes),
        Repair(backend_distribution, "process_id", global_devices.process_id),
        Repair(backend_distribution, "initialize", global_devices.initialize),
        Repair(backend_distribution, "distribute_tensor", global_devices.distribute_tensor),
        Repair(layer_module.Layer, "add_weight", cut_variable.add_weight, is_checked=False),
        Repair(reduction_metrics.Mean, "update_state", metrics.of_scalar),
        Repair(reduction_metrics.Sum, "update_state", metrics.of_scalar),
        Repair(keras.metrics.Metric, "__init__", metrics.watch_updates),
        Repair(keras.metrics.Metric, "add_variable", global_batch_metrics.add_variable),
        Repair(keras.layers.Embedding, "build", embedding_layers.build),
        Repair(keras.layers.Embedding, "call", embedding_layers.call),
        Repair(keras.layers.BatchNormalization, "_moments", batch_normalization.moments),
        Repair(
            base_image_preprocessing_layer.BaseImagePreprocessingLayer,
            "transform_single_image",
            batch_histograms.of_one_image,
        ),
        Repair(keras.layers.Equalization, "_custom_histogram_fixed_width", batch_histograms.histogram),
        Repair(FuncGraph, "_create_op_internal", _created, is_checked=False),
        Repair(FuncGraph, "control_dependencies", created_operations.control_dependencies, is_checked=False),
        Repair(backprop.GradientTape, "watch", created_operations.watch, is_checked=False),
        Repair(backprop.GradientTape, "_push_tape", created_operations.push_tape, is_checked=False),
        Repair(parallel_loops, "pfor", _pfor, is_checked=False),
        Repair(numpy_functions, "matmul", keras_products.matmul),
        Repair(numpy_functions, "einsum", keras_products.einsum),
        Repair(numpy_functions, "take", keras_products.take),
        Repair(numpy_functions, "repeat", keras_products.repeat),
        Repair(nn, "conv", keras_products.conv),
        Repair(nn, "gelu", keras_activations.gelu),
        Repair(nn, "silu", keras_activations.silu),
        Repair(nn, "sparse_categorical_crossentropy", vocabulary_rules.sparse_categorical_crossentropy),
        Repair(nn, "categorical_crossentropy", vocabulary_rules.categorical_crossentropy),
        Repair(nn, "_compute_moments_sync", batch_normalization.compute_moments_sync),
    )


def _of_losses() -> tuple[Repair, ...]:
    """Repairs of losses, of the terms that layers add to them, and of what scripts divide them by."""
    return (
        Repair(layer_module.Layer, "add_loss", added_losses.add_loss),
        Repair(layer_module.Layer, "_get_own_losses", added_losses.get_own_losses),
        Repair(layer_module.Layer, "_clear_losses", added_losses.clear_losses),
        Repair(layer_module.Layer, "_get_regularization_losses", loss_reduction.regularization_losses),
        Repair(base_trainer.Trainer, "compute_loss", loss_reduction.compute_loss),
        Repair(loss_module.Loss, "__call__", loss_reduction.call),
        Repair(loss_module, "reduce_weighted_values", loss_reduction.reduce_weighted_values),
        Repair(loss_module, "scale_loss_for_distribution", loss_reduction.undivided_loss),
        Repair(loss_module, "unscale_loss_for_distribution", loss_reduction.undivided_loss),
        Repair(losses_module, "convert_binary_labels_to_hinge", loss_treatment.convert_binary_labels),
        Repair(nn_impl_distribute, "compute_average_loss", loss_reduction.compute_average_loss, _TF_NN),
        Repair(nn_impl_distribute, "scale_regularization_loss", loss_reduction.scale_regularization_loss, _TF_NN),
        *(
            Repair(counting, "num_replicas_in_sync", loss_reduction.num_replicas_in_sync, is_checked=False)
            for counting in (distribute_lib.StrategyBase, distribute_lib.ReplicaContextBase)
        ),
    )


def _of_trials() -> tuple[Repair, ...]:
    """Repairs for loops that are tried out: their replicas exchange what real ones would, and a trial ends before it
    changes what cannot be restored."""
    scattered = [f"resource_scatter_{how}" for how in ("add", "div", "max", "min", "mul", "sub", "update")]
    scattered_at = [f"resource_scatter_nd_{how}" for how in ("add", "max", "min", "sub", "update")]
    assigned = [f"assign{how}_variable_op" for how in ("", "_add", "_sub")]
    return (
        *(
            Repair(context, name, repair, is_checked=False)
            for context, name, repair in (
                (distribute_lib.ReplicaContextBase, "all_reduce", strategy_reductions.context_all_reduce),
                (distribute_lib.ReplicaContext, "all_gather", strategy_reductions.context_all_gather),
                (distribute_lib.ReplicaContextBase, "merge_call", strategy_reductions.merge_call),
            )
        ),
        Repair(ConcreteFunction, "_call_flat", foreign_variables.call_flat, is_checked=False),
        *(
            Repair(module, name, foreign_variables.assignment, is_checked=False)
            for module, names in (
                (gen_resource_variable_ops, [*assigned, *scattered]),
                (gen_state_ops, scattered_at),
            )
            for name in names
        ),
    )


def _of_kernels() -> tuple[Repair, ...]:
    """Repairs of what oneDNN, and Keras, cannot compute of odd rows or of none."""
    return (
        Repair(gen_nn_ops, "conv2d_backprop_filter", strided_convolutions.filter_gradient, is_checked=False),
        *(
            Repair(gen_nn_ops, name, empty_batches.of_any_rows, is_checked=False)
            for name in ("conv2d", "conv3d", "depthwise_conv2d_native", "max_pool", "max_pool3d")
        ),
        Repair(numpy_functions, "add", empty_batches.add, is_checked=False),
    )


_SCATTERED = {
    "add": tf.tensor_scatter_nd_add,
    "sub": tf.tensor_scatter_nd_sub,
    "update": tf.tensor_scatter_nd_update,
}


def _of_variables() -> tuple[Repair, ...]:
    """Returns where variables have their values from, how these are reduced, and conversions that one device's have."""
    variable, collectives = values.DistributedVariable, cross_device_ops.CollectiveAllReduce
    launcher = cross_device_utils.CollectiveReplicaLauncher
    initial_value = "_get_variable_creator_initial_value"
    return (
        Repair(CollectiveAllReduceExtended, initial_value, variables.variable_creator_initial_value),
        Repair(collectives, "_all_reduce", strategy_reductions.all_reduce),
        Repair(collectives, "_all_reduce_per_replica_values", strategy_reductions.all_reduce_per_replica_values),
        Repair(launcher, "_all_gather", strategy_reductions.all_gather),
        *(
            Repair(variable, f"__{convert.__name__}__", variables.converting(convert))
            for convert in (int, float, complex)
        ),
        Repair(variable, "__array__", variables.array),
        Repair(variable, "__bool__", variables.truth),
        *(
            Repair(kind, name, variable_updates.own_assign, is_checked=False)
            for kind in (variable, values.SyncOnReadVariable)
            for name in ("assign", "assign_add", "assign_sub")
        ),
        *(
            Repair(variable, f"scatter_nd_{name}", variable_updates.scatter_nd(scattered), is_checked=False)
            for name, scattered in _SCATTERED.items()
        ),
        Repair(values.SyncOnReadVariable, "_get", step_logs.noted),
        Repair(values.SyncOnReadVariable, "value", step_logs.noted),
    )


def _created(original: Function) -> Function:
    return batch_limits.create_operation(created_operations.create_operation(original))


def _pfor(original: Function) -> Function:
    return batch_branches.pfor(created_operations.pfor(original))


def _layer_call(original: Function) -> Function:
    coupled = layer_calls.call_model(layer_calls.call(traced_draws.call(position_slices.call(original))))
    return layer_scopes.call(xla.call(added_losses.call(coupled)))


def _of_gradients(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of optimizers."""
    base, optimizer = base_optimizer.BaseOptimizer, optimizer_module.TFOptimizer
    scaler = keras.optimizers.LossScaleOptimizer
    apply = functools.partial(gradient_reduction.apply, observer=hooks.on_gradients)
    return (
        Repair(backprop.GradientTape, "gradient", _gradient),
        Repair(custom_gradient, "_graph_mode_decorator", custom_gradients.custom_gradient),
        Repair(custom_gradient, "_eager_mode_decorator", custom_gradients.custom_gradient),
        Repair(base, "__init__", gradient_reduction.init, is_checked=False),
        Repair(base, "build", slot_making.build),
        Repair(base, "add_variable", slot_making.add_variable),
        Repair(optimizer, "add_variable_from_reference", slot_making.add_variable_from_reference),
        Repair(optimizer, "_var_key", slot_making.var_key),
        Repair(base, "_clip_gradients", clipping.clip_gradients),
        Repair(base, "_update_model_variables_moving_average", averages.update),
        Repair(keras.callbacks.SwapEMAWeights, "_tf_swap_variables", averages.swap_all),
        Repair(keras.callbacks.SwapEMAWeights, "_tf_finalize_ema_values", averages.finalize_all),
        Repair(base, "apply", apply),
        Repair(scaler, "apply", apply),
        Repair(scaler, "scale_loss", gradient_reduction.scale_loss),
        Repair(scaler, "_tf_apply", variable_updates.scaled_apply),
        Repair(scaler, "check_finite", gradient_accumulation.check_finite),
        Repair(core.Variable, "_deferred_initialize", cut_variable.deferred_initialize, is_checked=False),
        Repair(core.Variable, "_initialize", variable_updates.initialize),
        Repair(core.Variable, "_direct_assign", variable_updates.direct_assign),
        Repair(optimizer, "assign", variable_updates.assign),
        Repair(optimizer, "assign_add", variable_updates.assign),
        Repair(optimizer, "assign_sub", variable_updates.assign),
        Repair(optimizer, "_backend_update_step", variable_updates.update_step),
        *(Repair(kind, "build", averages.build) for kind in averages.SCHEDULE_FREE),
        Repair(keras.optimizers.SGD, "update_step", variable_updates.sgd),
        Repair(keras.optimizers.Adam, "update_step", variable_updates.adam),
        Repair(keras.optimizers.Adagrad, "update_step", variable_updates.adagrad),
        Repair(optimizer, "_apply_weight_decay", variable_updates.as_without_strategy),
        Repair(optimizer, _OVERWRITE, _overwrite),
        Repair(optimizer, _ACCUMULATE, variable_updates.as_without_strategy),
    )


def _gradient(original: Function) -> Function:
    passed = second_gathers.gradient(recomputation.gradient(step_capture.gradient(original)))
    return gradient_reduction.sums_at_tape(summed_gradients.gradient(passed))


def _overwrite(original: Function) -> Function:
    return averages.overwrite(functools.wraps(original)(variable_updates.as_without_strategy(original)))


def _of_results(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of what the steps return, and of the callbacks that see it."""
    model = trainer_module.TensorFlowTrainer
    predict = functools.partial(predictions.predict, listener=hooks.listener)
    callback_list_init = functools.partial(
        callback_list.callback_list_init,
        extra=hooks.extra_callbacks,
        listener=hooks.listener,
        chosen=hooks.chosen_callbacks,
    )
    return (
        Repair(trainer_module, "reduce_per_replica", trainer.reduce_per_replica),
        Repair(base_trainer.Trainer, _RESULT, step_logs.metrics_result_or_logs),
        Repair(model, "train_on_batch", on_batch.train_on_batch),
        Repair(model, "test_on_batch", on_batch.test_on_batch),
        Repair(model, "predict_on_batch", on_batch.predict_on_batch),
        Repair(model, "predict", predict),
        Repair(callback_list_module.CallbackList, "__init__", callback_list_init),
        Repair(keras.callbacks.ModelCheckpoint, "_save_model", callback_list.save_checkpoint),
        Repair(keras.callbacks.BackupAndRestore, "on_train_begin", backup_and_restore.restore),
        Repair(keras.callbacks.BackupAndRestore, "_save_model", backup_and_restore.back_up),
        Repair(keras.callbacks.BackupAndRestore, "on_train_end", backup_and_restore.clean_up),
    )


def _of_writes() -> tuple[Repair, ...]:
    """Repairs of what steps write besides what they return: of TensorFlow's interface, which stays as it is."""
    python_function = write_functions.python_function
    return (
        Repair(summary_ops_v2, "write", write_functions.summary, (tf.summary, tf.compat.v2.summary), is_checked=False),
        Repair(logging_ops, "print_v2", write_functions.printing, is_checked=False),
        Repair(tf, "print", write_functions.printing, (tf.compat.v2,), is_checked=False),
        Repair(script_ops, "_internal_py_func", python_function("tf.py_function"), is_checked=False),
        Repair(script_ops, "py_func_common", python_function("tf.numpy_function"), is_checked=False),
        *(
            Repair(operation.owner, operation.name, make(operation), operation.also, is_checked=False)
            for make, operations in (
                (write_functions.writing, write_functions.WRITING),
                (write_functions.taking, write_functions.TAKING),
            )
            for operation in operations
        ),
    )


def _of_files(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of what is saved and loaded."""
    writer = functools.partial(model_saving.writer, listener=hooks.listener)

    def load_own_variables(original: Function) -> Function:
        return gradient_accumulation.load_own_variables(loaded_state.load_own_variables(original))

    def set_weights(original: Function) -> Function:
        return gradient_accumulation.set_weights(loaded_state.set_weights(original))

    return (
        Repair(saving_lib, "save_model", writer),
        Repair(saving_lib, "save_weights_only", writer),
        Repair(legacy_h5_format, "save_model_to_hdf5", writer),
        Repair(model_module.Model, "export", writer),
        Repair(SavedModelExportArchive, "write_out", writer),
        Repair(checkpoint.Checkpoint, "_maybe_create_save_counter", checkpoint_objects.alone, is_checked=False),
        Repair(checkpoint.Checkpoint, "_write", checkpoint_objects.whole_alone, is_checked=False),
        Repair(save, "save", checkpoint_objects.whole_alone, (tf.saved_model,), is_checked=False),
        Repair(values_util, "get_on_read_saveable", checkpoint_objects.on_read_saveable, is_checked=False),
        Repair(base_optimizer.BaseOptimizer, "load_own_variables", load_own_variables),
        Repair(base_optimizer.BaseOptimizer, "set_weights", set_weights),
        Repair(saving_api, "load_model", model_saving.reader, (keras.saving, keras.models)),
        Repair(saving_api, "load_weights", model_saving.reader, (keras.saving,)),
        Repair(load._WrapperFunction, "_call_flat", checkpoint_objects.call_flat),
    )
