"""The table of what repairs rely on: functions of Keras and TensorFlow that stay as they are.

A repair may compute again what such a function computes, with what all replicas have: a loss that is divided by the
entries of its mask, an update that is due every few steps. Or it is right only while the function does what it does:
sums of metrics that add up over replicas. Where the function changes, nothing fails, and numbers differ. So these have
fingerprints as the replaced ones have. What a repair just calls belongs here only where it depends on the inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import keras
from keras.src.activations import activations
from keras.src.backend.common import name_scope as name_scope_module
from keras.src.backend.common import stateless_scope, variables
from keras.src.backend.tensorflow import core, nn
from keras.src.backend.tensorflow import random as random_module
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.distribution import distribution_lib
from keras.src.layers import layer as layer_module
from keras.src.layers.regularization import spatial_dropout
from keras.src.layers.rnn import dropout_rnn_cell
from keras.src.losses import loss as loss_module
from keras.src.losses import losses as losses_module
from keras.src.metrics import confusion_metrics, iou_metrics, metrics_utils, reduction_metrics
from keras.src.optimizers import base_optimizer
from keras.src.random import seed_generator
from keras.src.saving import saving_lib
from keras.src.trainers import compile_utils
from keras.src.trainers import epoch_iterator as epoch_iterator_module
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_data_adapter, tf_dataset_adapter
from keras.src.utils import python_utils
from tensorflow.python.distribute import values, values_util
from tensorflow.python.eager.polymorphic_function import autograph_util
from tensorflow.python.ops import nn_impl, nn_ops, random_ops, random_ops_util, stateless_random_ops

from tfdist.keras_repairs.base import spare_generators, tensor_attributes
from tfdist.keras_repairs.callbacks import backup_and_restore, callback_list, chief_decisions
from tfdist.keras_repairs.coupling import loss_treatment
from tfdist.keras_repairs.coupling.trials import replica_trial
from tfdist.keras_repairs.files import weights_copy
from tfdist.keras_repairs.forward import (
    batch_moments,
    batch_normalization,
    global_batch_metrics,
    loss_reduction,
    metric_results,
    metrics,
)
from tfdist.keras_repairs.inputs import data_adapters, epoch_iterator, symbolic_build
from tfdist.keras_repairs.keras_function import KerasFunction
from tfdist.keras_repairs.loop import decorated_functions, step_logs, trainer
from tfdist.keras_repairs.optimizer import gradient_accumulation, gradient_reduction, variable_updates
from tfdist.keras_repairs.optimizer.averages import SCHEDULE_FREE
from tfdist.keras_repairs.random_numbers import draws, stateless_draws, unseeded_draws
from tfdist.keras_repairs.sharded_optimizer import cut_kinds, slot_making
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import KNOWN
from tfdist.keras_repairs.sharded_parameters import cut_variable, tensor_layouts


@dataclass(frozen=True)
class Reliance(KerasFunction):
    """A function that a repair relies on, and does not replace.

    Attributes:
        by: The module of the repair.
    """

    by: str


def assumed_functions() -> tuple[Reliance, ...]:
    """Every function that a repair relies on, in the order of a run."""
    return (
        *_for_data(),
        *_for_steps(),
        *_for_keras_random(),
        *_for_tensorflow_random(),
        *_for_losses(),
        *_for_metrics(),
        *_for_batch_normalization(),
        *_for_variables(),
        *_for_layouts(),
        *_for_updates(),
        *_for_loss_scaling(),
        *_for_callbacks_and_files(),
    )


def _of(by: ModuleType, owner: Any, *names: str) -> tuple[Reliance, ...]:
    return tuple(Reliance(owner, name, by.__name__) for name in names)


def _for_data() -> tuple[Reliance, ...]:
    """Returns how many samples the batches have, how many batches there are, and what ends an epoch."""
    arrays, datasets = array_data_adapter.ArrayDataAdapter, tf_dataset_adapter.TFDatasetAdapter
    iterator = trainer_module.TFEpochIterator
    return (
        *_of(data_adapters, arrays, "__init__", "num_batches", "batch_size", "partial_batch_size"),
        *_of(epoch_iterator, datasets, "get_tf_dataset", "num_batches"),
        *_of(epoch_iterator, epoch_iterator_module.EpochIterator, "__init__"),
        *_of(epoch_iterator, iterator, "catch_stop_iteration"),
    )


def _for_steps() -> tuple[Reliance, ...]:
    """Returns what Keras's own steps do with a replica's rows, and what is built before they run."""
    model = trainer_module.TensorFlowTrainer
    return (
        *_of(symbolic_build, base_trainer.Trainer, "_symbolic_build"),
        *_of(trainer, model, "train_step", "test_step", "predict_step"),
        *_of(trainer, model, "make_train_function", "make_test_function", "_autoconvert_optionals"),
        *_of(decorated_functions, autograph_util, "py_func_from_autograph"),
        *_of(step_logs, base_trainer.Trainer, "compute_metrics", "get_metrics_result"),
        *_of(step_logs, python_utils, "pythonify_logs"),
    )


def _for_keras_random() -> tuple[Reliance, ...]:
    """The state of seed generators, and the shapes of masks that layers draw."""
    return (
        *_of(spare_generators, seed_generator.SeedGenerator, "__init__"),
        *_of(spare_generators, seed_generator, "make_default_seed", "draw_seed"),
        *_of(draws, random_module, "_get_concrete_noise_shape"),
        *_of(draws, keras.layers.Dropout, "call"),
        *_of(draws, spatial_dropout.BaseSpatialDropout, "call"),
        *_of(draws, dropout_rnn_cell.DropoutRNNCell, "_create_dropout_mask"),
        *_of(draws, nn_ops, "_dropout"),
    )


def _for_tensorflow_random() -> tuple[Reliance, ...]:
    """Returns which operations the functions of `tf.random` call: the repairs replace the operations."""
    with_key = (
        "stateless_random_uniform",
        "stateless_random_normal",
        "stateless_truncated_normal",
        "stateless_random_gamma",
        "stateless_shuffle",
    )
    with_seed = (
        "stateless_random_binomial",
        "stateless_random_poisson",
        "stateless_parameterized_truncated_normal",
        "stateless_multinomial_categorical_impl",
    )
    with_state = (
        "random_normal",
        "truncated_normal",
        "random_uniform",
        "random_gamma",
        "random_poisson_v2",
        "multinomial_categorical_impl",
        "random_shuffle",
    )
    return (
        *_of(stateless_draws, random_ops_util, "get_key_counter_alg", "convert_alg_to_int"),
        *_of(stateless_draws, stateless_random_ops, *with_key, *with_seed),
        *_of(unseeded_draws, random_ops, *with_state),
    )


def _for_losses() -> tuple[Reliance, ...]:
    """Returns what a loss of the batch is divided by, and of which terms it is the sum."""
    return (
        *_of(loss_reduction, loss_module, "apply_mask", "reduce_values"),
        *_of(loss_reduction, compile_utils.CompileLoss, "__call__", "call"),
        *_of(loss_reduction, layer_module.Layer, "losses"),
        *_of(loss_treatment, losses_module.LossFunctionWrapper, "call"),
        *_of(loss_treatment, losses_module, "dice", "tversky"),
        *_of(tensor_attributes, nn, "_get_logits"),
        *_of(tensor_attributes, activations, "softmax", "sigmoid"),
    )


def _for_metrics() -> tuple[Reliance, ...]:
    """That the states of Keras's own metrics are sums over samples, which begin with zero and are added up."""
    kinds = (
        confusion_metrics._ConfusionMatrixConditionCount,
        confusion_metrics.SensitivitySpecificityBase,
        keras.metrics.Precision,
        keras.metrics.Recall,
        keras.metrics.AUC,
        keras.metrics.FBetaScore,
        iou_metrics._IoUBase,
        keras.metrics.BinaryIoU,
        keras.metrics.R2Score,
        keras.metrics.RootMeanSquaredError,
        keras.metrics.MeanMetricWrapper,
        compile_utils.CompileMetrics,
    )
    return (
        *_of(metrics, keras.metrics.Metric, "reset_state"),
        *_of(metrics, reduction_metrics, "reduce_to_samplewise_values"),
        *(reliance for kind in kinds for reliance in _of(metrics, kind, "update_state")),
        *_of(metrics, metrics_utils, "update_confusion_matrix_variables"),
        *_of(metric_results, compile_utils.CompileMetrics, "result"),
        *_of(global_batch_metrics, values.SyncOnReadVariable, "_get_cross_replica"),
        *_of(global_batch_metrics, values_util, "on_read_assign_cross_replica"),
    )


def _for_batch_normalization() -> tuple[Reliance, ...]:
    """The moments of one replica, and what a layer keeps of them; before Keras 3.14 there is no `renorm`."""
    return (
        *_of(batch_normalization, keras.layers.BatchNormalization, "call"),
        *_of(
            batch_normalization,
            keras.layers.BatchNormalization,
            "_renorm_correction_and_moments",
            "_update_renorm_statistics",
        ),
        *_of(batch_normalization, nn, "moments", "_compute_moments"),
        *_of(batch_moments, nn_impl, "moments"),
    )


def _for_variables() -> tuple[Reliance, ...]:
    """Returns how Keras makes, reads and assigns variables, within a scope and outside."""
    return (
        *_of(variable_updates, core.Variable, "_initialize_with_initializer"),
        *_of(variable_updates, variables.Variable, "assign"),
        *_of(replica_trial, variables.Variable, "value"),
        *_of(cut_variable, variables, "register_uninitialized_variable"),
        *_of(cut_variable, layer_module.Layer, "_untrack_variable"),
        *_of(cut_variable, stateless_scope.StatelessScope, "__exit__"),
        *_of(replica_trial, stateless_scope.StatelessScope, "add_update", "get_current_value"),
    )


def _for_layouts() -> tuple[Reliance, ...]:
    """Whose layout a weight has, and which layer makes it."""
    return (
        *_of(tensor_layouts, distribution_lib.ModelParallel, "get_variable_layout"),
        *_of(tensor_layouts, distribution_lib.LayoutMap, "__getitem__"),
        *_of(tensor_layouts, name_scope_module.name_scope, "__enter__"),
    )


def _for_updates() -> tuple[Reliance, ...]:
    """The order of an update: scaling, accumulation, clipping, decay, averages."""
    optimizer = base_optimizer.BaseOptimizer
    plain = (
        "_apply_weight_decay",
        "_overwrite_model_variables_with_average_value",
        "_backend_increment_gradient_accumulators",
    )
    return (
        *_of(gradient_reduction, optimizer, "_filter_empty_gradients", "scale_loss"),
        *_of(gradient_accumulation, optimizer, "_backend_apply_gradients"),
        *_of(gradient_accumulation, optimizer, "_backend_reset_gradient_accumulators"),
        *_of(variable_updates, optimizer, *plain),
        *_for_parts_of_updates(),
    )


def _for_parts_of_updates() -> tuple[Reliance, ...]:
    """That updates go element by element, or variable by variable, and which state they make."""
    names = ("build", "update_step", "_backend_update_step", "_apply_weight_decay")
    replaced = (keras.optimizers.SGD, keras.optimizers.Adam, keras.optimizers.Adagrad)
    repaired = {*((kind, "update_step") for kind in replaced), *((kind, "build") for kind in SCHEDULE_FREE)}
    own = ((kind, name) for kind in KNOWN for name in names if name in vars(kind))
    return (
        *_of(slot_making, base_optimizer.BaseOptimizer, "add_variable_from_reference", "add_optimizer_variables"),
        *(reliance for kind, name in own if (kind, name) not in repaired for reliance in _of(cut_kinds, kind, name)),
    )


def _for_loss_scaling() -> tuple[Reliance, ...]:
    """By what gradients are scaled, and what becomes of those that are not finite."""
    scaler = keras.optimizers.LossScaleOptimizer
    return (
        *_of(variable_updates, scaler, "_common_apply"),
        *_of(gradient_accumulation, scaler, "_stateful_handle_finite_grads", "_stateful_handle_non_finite_grads"),
    )


def _for_callbacks_and_files() -> tuple[Reliance, ...]:
    """Returns what callbacks do on the chief, which other workers follow, and which variables files hold."""
    return (
        *_of(chief_decisions, keras.callbacks.EarlyStopping, "on_train_end"),
        *_of(callback_list, keras.callbacks.ModelCheckpoint, "_should_save_model"),
        *_of(backup_and_restore, keras.callbacks.BackupAndRestore, "_load_model"),
        *_of(weights_copy, base_optimizer.BaseOptimizer, "save_own_variables"),
        *_of(weights_copy, saving_lib, "_save_state"),
    )
