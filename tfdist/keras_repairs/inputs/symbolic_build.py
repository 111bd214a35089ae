"""Builds models, metrics and optimizers: in the first step, or by the shapes of a batch where that is too late.

Such as where a checkpoint is restored before a first step that cannot be traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend
from keras.src.trainers.data_adapters import data_adapter_utils

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs.epoch_iterator import whole_batches
from tfdist.keras_repairs.model_checks import refusals
from tfdist.keras_repairs.model_checks.described_layouts import warn_of_layouts
from tfdist.keras_repairs.model_checks.model_facts import is_overridden
from tfdist.keras_repairs.optimizer.averages import is_to_be_built_first, warn_of_plain_keras
from tfdist.keras_repairs.random_numbers.seeds import not_advancing
from tfdist.runtime.batches.replica_batches import ReplicaBatch
from tfdist.runtime.strategy_settings import settings_of

Function = Callable[..., Any]

_OF_NOTHING = (type(tf.type_spec_from_value(None)), tf.OptionalSpec)
"""The specs of None, whose class has no public name before TensorFlow 2.21, and of what may be absent."""


def maybe_symbolic_build(original: Function) -> Function:
    """Repairs `TensorFlowTrainer._maybe_symbolic_build`: the first step builds, as without a strategy.

    Keras would build everything before that, from a batch that it reduces over the replicas to learn its shape. That
    crashes on unequal pieces, on strings and on several workers, and takes a batch from generators that cannot give it
    back; optimizers would exist before their first step, and variables under other names.

    A script that makes a strategy has Keras do so on one device, too. Then a batch is taken here as well: the samples
    of its steps are those that come after it, in the order in which a dataset is shuffled the second time.
    """

    def repaired(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        fit_state(self).note_iterator(iterator)
        if strategy.num_replicas_in_sync == 1:
            if iterator is not None and is_to_be_built_first(self):
                build_parts(self, iterator._distributed_dataset.element_spec)
            original(self, iterator, data_batch)
            return
        if iterator is not None and settings_of(strategy).made_by_script:
            next(iter(whole_batches(iterator)), None)
        refusals.check_model(self, getattr(iterator, "data_adapter", None))
        warn_of_layouts(self)

    return repaired


def build_parts(model: Any, element_spec: Any) -> None:
    """Builds what a model lacks, metrics and optimizer too, in the scope of its strategy.

    Args:
        model: Compiled.
        element_spec: That of the dataset that it is to be trained on.
    """
    if _has_no_call(model):
        # Its steps call its parts, which build themselves, as on one replica.
        return
    warn_of_plain_keras(model.optimizer)
    specs = _specs(element_spec)
    with not_advancing():
        if any(isinstance(spec, tf.RaggedTensorSpec) for spec in tf.nest.flatten(specs)):
            _build_from(model, specs)
        _build(model, tf.nest.map_structure(_symbolic, specs))


def _build(model: Any, data_batch: Any) -> None:
    """Keras's own building, which calls the model with the inputs that `fit` takes for its `x`.

    A step of the user's own may call it with others, such as all three parts of a triplet. It is built then, as on one
    replica.
    """
    try:
        model._symbolic_build(data_batch=data_batch)
    except Exception:  # Whatever the user's `call` raises on inputs that are not its own.
        if not is_overridden(model, "train_step"):
            raise


def _has_no_call(model: Any) -> bool:
    return type(model).call is keras.Model.call or type(model).call is keras.Layer.call


def _specs(element_spec: Any) -> Any:
    """The spec of one replica's piece of each component of a batch; None for what is absent."""

    def of_one(spec: Any) -> Any:
        spec = getattr(spec, "_value_specs", (spec,))[0]
        return None if isinstance(spec, _OF_NOTHING) else spec

    return tf.nest.map_structure(of_one, element_spec.data if isinstance(element_spec, ReplicaBatch) else element_spec)


def _symbolic(spec: Any) -> Any:
    if spec is None:
        return None
    return backend.KerasTensor(
        spec.shape, backend.standardize_dtype(spec.dtype), sparse=isinstance(spec, tf.SparseTensorSpec)
    )


def _build_from(model: Any, specs: Any) -> None:
    """Does what `_symbolic_build` does, for ragged tensors, which Keras's symbolic tensors cannot represent."""

    def trace() -> None:
        batch = tf.nest.map_structure(_placeholder, specs)
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(batch)
        y_pred = model(x, training=False)
        if model._compile_metrics is not None and not model._compile_metrics.built:
            model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        if model._compile_loss is not None and not model._compile_loss.built:
            model._compute_loss(x, y, y_pred, sample_weight=sample_weight, training=False)

    backend.compute_output_spec(trace)


def _placeholder(spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.compat.v1.ragged.placeholder(spec.dtype, spec.ragged_rank, spec.shape[spec.ragged_rank + 1 :])
    make = tf.compat.v1.sparse_placeholder if isinstance(spec, tf.SparseTensorSpec) else tf.compat.v1.placeholder
    return make(spec.dtype, spec.shape)
