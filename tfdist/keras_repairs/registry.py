"""The table of repairs: which Keras functions are replaced, by what, and the fingerprints of the originals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend, datasets
from keras.src.backend import tensorflow as tensorflow_backend
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import core, nn
from keras.src.backend.tensorflow import optimizer as optimizer_module
from keras.src.backend.tensorflow import random as random_module
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.callbacks import callback_list as callback_list_module
from keras.src.export import saved_model_export_archive
from keras.src.layers import layer as layer_module
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
from keras.src.trainers.data_adapters import array_data_adapter
from keras.src.utils import file_utils
from tensorflow.python.autograph.impl import conversion
from tensorflow.python.distribute import mirrored_run, values
from tensorflow.python.eager import backprop
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import random_seed
from tensorflow.python.ops import (
    cond,
    control_flow_switch_case,
    gen_random_ops,
    gen_stateless_random_ops,
    gen_stateless_random_ops_v2,
    nn_impl_distribute,
    while_loop,
)
from tensorflow.python.saved_model import load

from tfdist.keras_repairs.base import clear_session, global_seeds, thread_attributes, variable_conversions
from tfdist.keras_repairs.callbacks import backup_and_restore, callback_list
from tfdist.keras_repairs.coupling import hinge_labels, layer_calls, loss_treatment, model_calls
from tfdist.keras_repairs.coupling.trials import kept_tensors
from tfdist.keras_repairs.coupling.trials.steps import step_capture
from tfdist.keras_repairs.files import downloads, loaded_functions, model_saving
from tfdist.keras_repairs.forward import (
    added_losses,
    average_loss,
    batch_normalization,
    losses,
    metrics,
    xla,
)
from tfdist.keras_repairs.inputs import array_shuffle, epoch_iterator, symbolic_build
from tfdist.keras_repairs.keras_versions import MISSING, UNCHECKED
from tfdist.keras_repairs.loop import (
    decorated_functions,
    fit_listeners,
    metric_reads,
    on_batch,
    predictions,
    step_logs,
    trainer,
)
from tfdist.keras_repairs.optimizer import (
    accumulator_reduction,
    first_averages,
    fused_sgd,
    gradient_accumulation,
    gradient_reduction,
    variable_updates,
)
from tfdist.keras_repairs.random_numbers import (
    batch_size,
    draws,
    loops_and_branches,
    python_draws,
    seeds,
    stateless_draws,
    traced_draws,
    unseeded_draws,
    unshared_draws,
)

Function = Callable[..., Any]
_RESULT = "_get_metrics_result_or_logs"
_OVERWRITE = "_overwrite_model_variables_with_average_value"
_ACCUMULATE = "_backend_increment_gradient_accumulators"

_TF_NN = (tf.nn, tf.compat.v1.nn, tf.compat.v2.nn)
"""TensorFlow's public names of `nn_impl_distribute`."""

_DATASETS = tuple(
    module for name, module in vars(datasets).items() if not name.startswith("_") and hasattr(module, "get_file")
)
"""Keras's modules that hold a `get_file` of their own."""


@dataclass(frozen=True)
class RepairHooks:
    """What other packages of tfdist connect to the repairs: the arguments of `install`."""

    imposed_seed: int | None = None
    extra_callbacks: callback_list.ExtraCallbacks = callback_list.none_extra
    on_batch: trainer.Observer | None = None
    on_gradients: gradient_reduction.Observer | None = None
    listener: fit_listeners.FitListener = fit_listeners.NoListener()


@dataclass(frozen=True)
class Repair:
    """One replaced function: `owner.name` becomes `make(original)`.

    Attributes:
        owner: The module or class that holds the function.
        name: Its attribute there.
        make: Takes the original function and returns the repaired one.
        known: The fingerprint of the original that `make` was written for; `MISSING` where there is none, and the owner
            gets a function that it did not have; `UNCHECKED` where it may be any.
        also: Public modules that hold the function under the same name.
    """

    owner: Any
    name: str
    make: Callable[[Any], Function]
    known: str
    also: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        """The function's name, as messages give it."""
        return f"{getattr(self.owner, '__qualname__', self.owner.__name__)}.{self.name}"


def repairs(hooks: RepairHooks = RepairHooks()) -> tuple[Repair, ...]:
    """Every repair, in the order of a run."""
    return (
        *_of_data(hooks),
        *_of_keras_random(),
        *_of_tensorflow_random(hooks),
        *_of_the_forward_pass(),
        *_of_variables(),
        *_of_gradients(hooks),
        *_of_results(hooks),
        *_of_files(hooks),
    )


def _of_data(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of set-up and data, and of how a model's steps are built and run over the data."""
    model, iterator = trainer_module.TensorFlowTrainer, trainer_module.TFEpochIterator
    make_function = functools.partial(trainer.make_function, observer=hooks.on_batch, listener=hooks.listener)
    make_predict_function = functools.partial(trainer.make_predict_function, listener=hooks.listener)
    fit, evaluate = (
        functools.partial(fit_listeners.notifying, call=call, listener=hooks.listener) for call in ("fit", "evaluate")
    )
    arrays = array_data_adapter.ArrayDataAdapter
    array_dataset = functools.partial(array_shuffle.array_dataset, imposed_seed=hooks.imposed_seed)
    return (
        Repair(
            global_state,
            "clear_session",
            clear_session.clear_session,
            "e517b50de32ee862",
            (keras.utils, keras.backend),
        ),
        Repair(mirrored_run, "_call_for_each_replica", thread_attributes.call_for_each_replica, "c6489718e7af3d86"),
        Repair(mirrored_run._MirroredReplicaContext, "_merge_call", kept_tensors.merge_call, "d407308e9686bdba"),
        Repair(seed_generator, "global_seed_generator", global_seeds.global_seed_generator, "4ec13060644e9a90"),
        Repair(file_utils, "get_file", downloads.get_file, "dc48326d0c7535b1", (keras.utils, *_DATASETS)),
        Repair(arrays, "get_tf_dataset", array_dataset, "2ab7c0854bf89cd1"),
        Repair(iterator, "__init__", epoch_iterator.epoch_iterator_init, "901af2700297156f"),
        Repair(iterator, "_get_iterator", epoch_iterator.epoch_iterator_source, "b986aa8a9d2264d9"),
        Repair(iterator, "_enumerate_iterator", epoch_iterator.epoch_steps, "376e3e16a928107a"),
        Repair(compile_utils, "get_loss", loss_treatment.get_loss, "16229ed5c71bffdb"),
        Repair(compile_utils.CompileMetrics, "reset_state", symbolic_build.reset_state, "d00f0c7abc2abd15"),
        Repair(model, "_maybe_symbolic_build", symbolic_build.maybe_symbolic_build, "92a504f5eba9b29f"),
        Repair(model, "_make_function", make_function, "bb33b7a0da3d2740"),
        Repair(polymorphic_function.Function, "__call__", decorated_functions.call, "c71e636a2ab07dfb"),
        Repair(conversion, "is_allowlisted", decorated_functions.is_allowlisted, "2a6f6ed3185b047a"),
        Repair(model, "make_predict_function", make_predict_function, "a772a2efdd906f9a"),
        Repair(model, "fit", fit, "a9a6dc02a7ddafa8"),
        Repair(model, "evaluate", evaluate, "a1facf6528168e8d"),
    )


def _of_keras_random() -> tuple[Repair, ...]:
    """Repairs of the functions of `keras.random`, of their seeds, and of the sizes that scripts give them."""
    of_shape = {
        "uniform": "9ca69437a855029f",
        "normal": "58c75c5521f3eb1a",
        "truncated_normal": "75682b9b641f18d1",
        "randint": "ce8965ddd55470f5",
        "gamma": "deed4b2e56d15cec",
        "beta": "fac27c7e97719622",
        "binomial": "d1862c21b8e26d4b",
    }
    return (
        Repair(seed_generator.SeedGenerator, "next", seeds.next_seed, "d2174a08ab35eb07"),
        Repair(core, "shape", batch_size.shape, "ef7d3377554b4cd2", (backend, tensorflow_backend)),
        *(Repair(random_module, name, draws.of_shape, known) for name, known in of_shape.items()),
        Repair(random_module, "dropout", draws.dropout, "47a159de0b6729e2"),
        Repair(random_module, "categorical", draws.categorical, "49c7126064b138cf"),
        Repair(random_module, "shuffle", draws.shuffle, "fd1ae18d21a1e29b"),
    )


def _of_tensorflow_random(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of the operations below `keras.random`, and of what else draws in TensorFlow."""
    get_seed = functools.partial(unshared_draws.get_seed, imposed_seed=hooks.imposed_seed)
    numbers = {
        "stateless_random_uniform_v2": "9f0d4e0319a0822d",
        "stateless_random_uniform_full_int_v2": "8c2cf3bde8f80a39",
        "stateless_random_normal_v2": "6c9cc7bd06ade4c6",
    }
    with_parameters = {
        "stateless_random_binomial": "1acca23fa2084572",
        "stateless_random_poisson": "8353bb4f59b95485",
        "stateless_parameterized_truncated_normal": "6e01f6a2d234cbbc",
    }
    operations, older = gen_stateless_random_ops_v2, gen_stateless_random_ops
    return (
        Repair(random_seed, "get_seed", get_seed, "732c2984d895cfab"),
        Repair(tf.random.Generator, "_prepare_key_counter", unshared_draws.of_generator, "77f50cb18ffab4dc"),
        Repair(tf.random.Generator, "binomial", unshared_draws.of_generator, "40da95595ed62b48"),
        Repair(while_loop, "while_loop", loops_and_branches.while_loop, "b0f8046532591dce"),
        Repair(cond, "cond", loops_and_branches.cond, "ca88a3088c0efa4d"),
        Repair(control_flow_switch_case, "_indexed_case_helper", loops_and_branches.switch, "f1db9c67411f9112"),
        *_of_unseeded_draws(),
        *(Repair(operations, name, stateless_draws.numbers, known) for name, known in numbers.items()),
        Repair(operations, "stateless_truncated_normal_v2", stateless_draws.truncated_normal, "11849648fbc07fa4"),
        Repair(operations, "stateless_random_uniform_int_v2", stateless_draws.integers, "60af847993efe6d5"),
        Repair(operations, "stateless_random_gamma_v3", stateless_draws.gamma, "da7f4d4852a5c4bf"),
        Repair(operations, "stateless_shuffle", stateless_draws.shuffle, "10f411498d39bee8"),
        *(Repair(older, name, stateless_draws.with_parameters, known) for name, known in with_parameters.items()),
        Repair(older, "stateless_multinomial", stateless_draws.multinomial, "ddf3f70d77d49d12"),
        *_of_python(),
    )


def _of_unseeded_draws() -> tuple[Repair, ...]:
    """Repairs of the operations below `tf.random.normal` and its kin, which keep a state of their own."""
    drawings = {
        "random_standard_normal": (unseeded_draws.NORMAL, "2b6b1dd1a77db5fc"),
        "truncated_normal": (unseeded_draws.TRUNCATED_NORMAL, "a2253758899802ce"),
        "random_uniform": (unseeded_draws.UNIFORM, "d5e5e82b14b265a1"),
        "random_uniform_int": (unseeded_draws.INTEGERS, "0c896a5986033b50"),
        "random_gamma": (unseeded_draws.GAMMA, "c4348d9d49f12a6b"),
        "random_poisson_v2": (unseeded_draws.POISSON, "815f03f5c7f70bc5"),
        "multinomial": (unseeded_draws.CATEGORICAL, "db15c5ada5b8de59"),
        "random_shuffle": (unseeded_draws.SHUFFLE, "26fabfcf0c84b4de"),
    }
    return tuple(
        Repair(gen_random_ops, name, functools.partial(unseeded_draws.unseeded, drawing_of=drawing), known)
        for name, (drawing, known) in drawings.items()
    )


def _of_python() -> tuple[Repair, ...]:
    """Repairs of the functions that draw from NumPy's and Python's generators."""
    names = [(module, name) for module, names in python_draws.NAMES.items() for name in names]
    return tuple(
        Repair(module, name, functools.partial(python_draws.watched, name=f"{module.__name__}.{name}"), UNCHECKED)
        for module, name in names
    )


def _of_the_forward_pass() -> tuple[Repair, ...]:
    """Repairs of layers, losses and metrics."""
    return (
        Repair(layer_module.Layer, "__call__", _layer_call, "4fb7e42e4ffd9b1a"),
        Repair(layer_module.Layer, "add_loss", added_losses.add_loss, "7f70f38e2f25640d"),
        Repair(layer_module.Layer, "_get_own_losses", added_losses.get_own_losses, "bce6599684980e77"),
        Repair(layer_module.Layer, "_clear_losses", added_losses.clear_losses, "9e906f0d5c292178"),
        Repair(base_trainer.Trainer, "compute_loss", losses.compute_loss, "450e48288d4857f0"),
        Repair(loss_module.Loss, "__call__", losses.call, "f42c42282ee8902b"),
        Repair(loss_module, "reduce_weighted_values", losses.reduce_weighted_values, "1976df12ea192061"),
        Repair(loss_module, "scale_loss_for_distribution", losses.unless_whole, "143cd8a5efb6cb17"),
        Repair(loss_module, "unscale_loss_for_distribution", losses.unless_whole, "3903c7ed7f69c5ac"),
        Repair(
            losses_module,
            "convert_binary_labels_to_hinge",
            hinge_labels.convert_binary_labels,
            "52e08efff706580d",
        ),
        Repair(
            nn_impl_distribute,
            "compute_average_loss",
            average_loss.compute_average_loss,
            "3683ca7a96dd88ea",
            _TF_NN,
        ),
        Repair(
            nn_impl_distribute,
            "scale_regularization_loss",
            average_loss.scale_regularization_loss,
            "2adedb87d51320b2",
            _TF_NN,
        ),
        Repair(reduction_metrics.Mean, "update_state", metrics.of_scalar, "addc194e254fbb64"),
        Repair(reduction_metrics.Sum, "update_state", metrics.of_scalar, "c378d5550155cd5d"),
        Repair(keras.metrics.Metric, "__init__", metrics.watch_updates, "d67a65a42a13134b"),
        Repair(keras.layers.BatchNormalization, "_moments", batch_normalization.moments, "2ba739b46f4fadea"),
        Repair(nn, "_compute_moments_sync", batch_normalization.compute_moments_sync, "4ef59a47d67b32b8"),
    )


def _of_variables() -> tuple[Repair, ...]:
    """Conversions that variables of one device have, and those of a strategy lack."""
    variable = values.DistributedVariable
    return (
        *(
            Repair(variable, f"__{convert.__name__}__", variable_conversions.converting(convert), MISSING)
            for convert in (int, float, complex)
        ),
        Repair(variable, "__array__", variable_conversions.array, MISSING),
        Repair(variable, "__bool__", variable_conversions.truth, MISSING),
        Repair(values.SyncOnReadVariable, "_get", metric_reads.noted, "2913eadfad426ac5"),
        Repair(values.SyncOnReadVariable, "value", metric_reads.noted, "998400255a7e356c"),
    )


def _layer_call(original: Function) -> Function:
    return xla.call(model_calls.call(layer_calls.call(traced_draws.call(original))))


def _of_gradients(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of optimizers."""
    optimizer = optimizer_module.TFOptimizer
    scaler = keras.optimizers.LossScaleOptimizer
    apply = functools.partial(gradient_reduction.apply, observer=hooks.on_gradients)
    return (
        Repair(backprop.GradientTape, "gradient", step_capture.gradient, "9b8697dadc28baa4"),
        Repair(base_optimizer.BaseOptimizer, "apply", apply, "43097be63b919d03"),
        Repair(scaler, "apply", apply, "1cc61fb4c21edb7a"),
        Repair(scaler, "_tf_apply", variable_updates.scaled_apply, "e702c4db1a0622e3"),
        Repair(scaler, "check_finite", gradient_accumulation.check_finite, "b0ce693a4ff0133b"),
        Repair(core.Variable, "_initialize", variable_updates.initialize, "ab759c22f87fb300"),
        Repair(core.Variable, "_direct_assign", variable_updates.direct_assign, "170647e9816db1d6"),
        Repair(optimizer, "assign", variable_updates.assign, "a214ab6f747d105d"),
        Repair(optimizer, "assign_add", variable_updates.assign, "c19cc16b9ffdb6d5"),
        Repair(optimizer, "assign_sub", variable_updates.assign, "e9d7acd240f4f80c"),
        Repair(optimizer, "_backend_update_step", variable_updates.update_step, "00bd759c099a6b72"),
        Repair(keras.optimizers.ScheduleFreeAdamW, "build", first_averages.build, "c6af873108eb10e9"),
        Repair(keras.optimizers.SGD, "update_step", fused_sgd.sgd, "62b94b8170566ccf"),
        Repair(optimizer, "_apply_weight_decay", variable_updates.as_without_strategy, "fee6526b6ad02f94"),
        Repair(optimizer, _OVERWRITE, variable_updates.as_without_strategy, "e4c579104f4577b1"),
        Repair(optimizer, _ACCUMULATE, variable_updates.as_without_strategy, "5e5ed334c33b5a56"),
    )


def _of_results(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of what the steps return, and of the callbacks that see it."""
    model = trainer_module.TensorFlowTrainer
    predict = functools.partial(predictions.predict, listener=hooks.listener)
    callback_list_init = functools.partial(
        callback_list.callback_list_init, extra=hooks.extra_callbacks, listener=hooks.listener
    )
    return (
        Repair(trainer_module, "reduce_per_replica", trainer.reduce_per_replica, "2e7d54b1e6edc29a"),
        Repair(base_trainer.Trainer, _RESULT, step_logs.metrics_result_or_logs, "1c7ab4a2c8e61868"),
        Repair(model, "train_on_batch", on_batch.train_on_batch, "0bcf00476ff75834"),
        Repair(model, "test_on_batch", on_batch.test_on_batch, "200619489306c54e"),
        Repair(model, "predict_on_batch", on_batch.predict_on_batch, "05be67cba664972c"),
        Repair(model, "predict", predict, "ee5831d7d2179667"),
        Repair(callback_list_module.CallbackList, "__init__", callback_list_init, "5d0d38afece9158a"),
        Repair(keras.callbacks.ModelCheckpoint, "_save_model", callback_list.save_checkpoint, "a9be0a24277ff179"),
        Repair(keras.callbacks.BackupAndRestore, "on_train_begin", backup_and_restore.restore, "dfdb7eac4983f490"),
        Repair(keras.callbacks.BackupAndRestore, "_save_model", backup_and_restore.back_up, "5eb7b53ca13ad33d"),
        Repair(keras.callbacks.BackupAndRestore, "on_train_end", backup_and_restore.clean_up, "3a3f33285b2c46b0"),
    )


def _of_files(hooks: RepairHooks) -> tuple[Repair, ...]:
    """Repairs of what is saved and loaded."""
    writer = functools.partial(model_saving.writer, listener=hooks.listener)
    load_own_variables = accumulator_reduction.load_own_variables
    return (
        Repair(saving_lib, "save_model", writer, "0b360baae4175255"),
        Repair(saving_lib, "save_weights_only", writer, "649839a5ed3a5df6"),
        Repair(legacy_h5_format, "save_model_to_hdf5", writer, "089058ee0d3223d6"),
        Repair(model_module.Model, "export", writer, "f11ed3b71eb342ea"),
        Repair(saved_model_export_archive.SavedModelExportArchive, "write_out", writer, "8a0f4932dcbdcba6"),
        Repair(base_optimizer.BaseOptimizer, "load_own_variables", load_own_variables, "a6e0c5e7e88c4d33"),
        Repair(base_optimizer.BaseOptimizer, "set_weights", accumulator_reduction.set_weights, "3586228c15207e2c"),
        Repair(saving_api, "load_model", model_saving.reader, "27ac0bf7bbe8180a", (keras.saving, keras.models)),
        Repair(saving_api, "load_weights", model_saving.reader, "55456126c316c9c3", (keras.saving,)),
        Repair(load._WrapperFunction, "_call_flat", loaded_functions.call_flat, "f57fde32077196bf"),
    )
