"""Which Keras functions are replaced, by what, and the fingerprints of those that this was written for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras.src import datasets
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import nn
from keras.src.backend.tensorflow import optimizer as optimizer_module
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.callbacks import callback_list
from keras.src.export import saved_model_export_archive
from keras.src.layers import layer as layer_module
from keras.src.legacy.saving import legacy_h5_format
from keras.src.losses import loss as loss_module
from keras.src.metrics import reduction_metrics
from keras.src.models import model as model_module
from keras.src.random import seed_generator
from keras.src.saving import saving_api, saving_lib
from keras.src.trainers import compile_utils
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_data_adapter
from keras.src.utils import file_utils

from tfdist.keras_repairs import (
    added_losses,
    callbacks,
    clearing,
    downloads,
    empty_batches,
    gradients,
    guard,
    losses,
    metrics,
    random_layers,
    refusals,
    saving,
    shuffling,
    trainer,
)

Function = Callable[..., Any]
_MARK = "_tfdist_repair"

_DATASETS = tuple(
    module for name, module in vars(datasets).items() if not name.startswith("_") and hasattr(module, "get_file")
)
"""Keras's modules that hold a `get_file` of their own."""


@dataclass(frozen=True)
class Repair:
    """One replaced function: `owner.name` becomes `make(original)`.

    Attributes:
        owner: The module or class that holds the function.
        name: Its attribute there.
        make: Takes the original function and returns the repaired one.
        known: The fingerprint of the original that `make` was written for.
        also: Public modules that hold the function under the same name.
    """

    owner: Any
    name: str
    make: Callable[[Function], Function]
    known: str
    also: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        """The function's name, for people."""
        return f"{getattr(self.owner, '__qualname__', self.owner.__name__)}.{self.name}"


def install(
    imposed_seed: int | None = None, extra_callbacks: Callable[[], Sequence[keras.callbacks.Callback]] = tuple
) -> None:
    """Installs every repair in this process; what is installed already stays.

    Args:
        imposed_seed: TensorFlow's global seed where tfdist set it and the script did not; see `shuffling`.
        extra_callbacks: Returns the callbacks that each `fit`, `evaluate` and `predict` gets besides its own.
    """
    todo = [repair for repair in repairs(imposed_seed, extra_callbacks) if not _is_installed(repair)]
    originals = {repair.path: getattr(repair.owner, repair.name) for repair in todo}
    guard.check(keras.__version__, originals, {repair.path: repair.known for repair in todo})
    for repair in todo:
        original = originals[repair.path]
        repaired = functools.wraps(original)(repair.make(original))
        setattr(repaired, _MARK, True)
        for owner in (repair.owner, *repair.also):
            setattr(owner, repair.name, repaired)


def repairs(
    imposed_seed: int | None = None, extra_callbacks: Callable[[], Sequence[keras.callbacks.Callback]] = tuple
) -> tuple[Repair, ...]:
    """Every repair, in the order of a run: set-up, data, forward pass, gradients, results, callbacks, files."""
    model = trainer_module.TensorFlowTrainer
    optimizer = optimizer_module.TFOptimizer
    arrays = array_data_adapter.ArrayDataAdapter
    array_dataset = functools.partial(shuffling.array_dataset, imposed_seed=imposed_seed)
    callback_list_init = functools.partial(callbacks.callback_list_init, extra=extra_callbacks)
    return (
        Repair(global_state, "clear_session", clearing.clear_session, "e517b50de32ee862", (keras.utils, keras.backend)),
        Repair(file_utils, "get_file", downloads.get_file, "dc48326d0c7535b1", (keras.utils, *_DATASETS)),
        Repair(arrays, "get_tf_dataset", array_dataset, "2ab7c0854bf89cd1"),
        Repair(trainer_module.TFEpochIterator, "__init__", trainer.epoch_iterator_init, "901af2700297156f"),
        Repair(trainer_module.TFEpochIterator, "_get_iterator", trainer.epoch_iterator_source, "b986aa8a9d2264d9"),
        Repair(model, "_maybe_symbolic_build", trainer.maybe_symbolic_build, "92a504f5eba9b29f"),
        Repair(model, "_make_function", trainer.make_function, "bb33b7a0da3d2740"),
        Repair(layer_module.Layer, "add_loss", added_losses.add_loss, "7f70f38e2f25640d"),
        Repair(layer_module.Layer, "_get_own_losses", added_losses.get_own_losses, "bce6599684980e77"),
        Repair(base_trainer.Trainer, "compute_loss", losses.compute_loss, "450e48288d4857f0"),
        Repair(loss_module, "reduce_weighted_values", losses.reduce_weighted_values, "1976df12ea192061"),
        Repair(loss_module, "scale_loss_for_distribution", losses.unless_whole, "143cd8a5efb6cb17"),
        Repair(loss_module, "unscale_loss_for_distribution", losses.unless_whole, "3903c7ed7f69c5ac"),
        Repair(reduction_metrics.MeanMetricWrapper, "update_state", metrics.mean_of_function, "1763e0dd65d030f5"),
        Repair(compile_utils.MetricsList, "update_state", metrics.update_all, "2d388dafe5c9dff5"),
        Repair(keras.layers.BatchNormalization, "_moments", refusals.masked_moments, "2ba739b46f4fadea"),
        Repair(nn, "_compute_moments", empty_batches.compute_moments, "f6147c543d557842"),
        Repair(seed_generator.SeedGenerator, "next", random_layers.next_seed, "d2174a08ab35eb07"),
        Repair(nn, "conv", empty_batches.convolution, "1bae7c0469d44106"),
        Repair(nn, "depthwise_conv", empty_batches.convolution, "492c94d51f85389f"),
        Repair(nn, "separable_conv", empty_batches.convolution, "d163319653f9a846"),
        Repair(optimizer, "_backend_apply_gradients", gradients.backend_apply_gradients, "48d6e24d58039241"),
        Repair(optimizer, "_all_reduce_sum_gradients", gradients.all_reduce_sum_gradients, "953512efa56c9680"),
        Repair(trainer_module, "reduce_per_replica", trainer.reduce_per_replica, "2e7d54b1e6edc29a"),
        Repair(model, "train_on_batch", trainer.train_on_batch, "0bcf00476ff75834"),
        Repair(model, "test_on_batch", trainer.test_on_batch, "200619489306c54e"),
        Repair(model, "predict_on_batch", trainer.predict_on_batch, "05be67cba664972c"),
        Repair(callback_list.CallbackList, "__init__", callback_list_init, "5d0d38afece9158a"),
        Repair(saving_lib, "save_model", saving.writer, "0b360baae4175255"),
        Repair(saving_lib, "save_weights_only", saving.writer, "649839a5ed3a5df6"),
        Repair(legacy_h5_format, "save_model_to_hdf5", saving.writer, "089058ee0d3223d6"),
        Repair(model_module.Model, "export", saving.writer, "f11ed3b71eb342ea"),
        Repair(saved_model_export_archive.SavedModelExportArchive, "write_out", saving.writer, "8a0f4932dcbdcba6"),
        Repair(saving_api, "load_model", saving.reader, "27ac0bf7bbe8180a", (keras.saving, keras.models)),
        Repair(saving_api, "load_weights", saving.reader, "55456126c316c9c3", (keras.saving,)),
    )


def _is_installed(repair: Repair) -> bool:
    return hasattr(getattr(repair.owner, repair.name), _MARK)
