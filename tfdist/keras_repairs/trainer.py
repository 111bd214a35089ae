"""`fit`, `evaluate` and `predict` of Keras's TensorFlow trainer under a strategy of several replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend
from keras.src.backend.tensorflow import trainer as trainer_module
from keras.src.trainers.epoch_iterator import EpochIterator

from tfdist.keras_repairs import refusals
from tfdist.keras_repairs.agreement import check_same_data
from tfdist.keras_repairs.data_adapters import distribute, piece, rows, static_rows
from tfdist.keras_repairs.replicas import replica_step

Function = Callable[..., Any]


def epoch_iterator_init(original: Function) -> Function:
    """Repairs `TFEpochIterator.__init__`: cuts each global batch exactly; pipelines close without waiting."""

    def repaired(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        if distribute_strategy is None or distribute_strategy.num_replicas_in_sync == 1:
            original(self, distribute_strategy, *args, **kwargs)
            return
        EpochIterator.__init__(self, *args, **kwargs)
        self._distribute_strategy = distribute_strategy
        check_same_data(self.data_adapter, distribute_strategy)
        self._distributed_dataset = distribute(self.data_adapter.get_tf_dataset(), distribute_strategy)

    return repaired


def epoch_iterator_source(original: Function) -> Function:
    """Repairs `TFEpochIterator._get_iterator`: no part of a step runs after the last batch.

    Keras fetches a batch inside the compiled step. Where it cannot know which batch is the last, it runs one step more
    to find out, and TensorFlow executes of it what needs no data: the optimizer counts a step, weights decay, random
    states advance, and on several replicas not always the same. Fetched outside, the end is found before the step.
    """

    def repaired(self: Any) -> Any:
        dataset = original(self)
        ends_unseen = self.data_adapter.num_batches is None and _cardinality(dataset) != tf.data.INFINITE_CARDINALITY
        # Of several steps in one execution Keras already looks for the end before each.
        return _Fetched(dataset) if ends_unseen and self.steps_per_execution == 1 else dataset

    return repaired


def maybe_symbolic_build(original: Function) -> Function:
    """Repairs `TensorFlowTrainer._maybe_symbolic_build`: builds from the shapes of a batch, without reading one.

    Keras reduces a batch over the replicas to learn its shape, which crashes on unequal pieces, on strings and on
    several workers, and takes a batch from generators that cannot give it back.
    """

    def repaired(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync == 1:
            original(self, iterator, data_batch)
            return
        refusals.check_model(self)
        if data_batch is None:
            data_batch = _batch_like(iterator._distributed_dataset.element_spec)
        with strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    return repaired


def make_function(original: Function) -> Function:
    """Repairs `TensorFlowTrainer._make_function`: each replica's step knows its share of the global batch."""

    def repaired(self: Any, step_function: Function) -> Function:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return original(self, step_function)
        return original(self, _as_share(step_function))

    return repaired


def reduce_per_replica(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.trainer.reduce_per_replica`.

    Logs of a step are the worker's own: no collective is spent on them, and at the end of an epoch Keras reads the
    metrics themselves, which sums them over all replicas. Predictions are joined in the order of the replicas, which
    is that of the input.
    """

    def repaired(values: Any, strategy: tf.distribute.Strategy, reduction: str) -> Any:
        if strategy.num_replicas_in_sync == 1:
            return original(values, strategy, reduction)
        return tf.nest.map_structure(lambda value: _reduce(value, strategy, reduction), values)

    return repaired


def train_on_batch(original: Function) -> Function:
    """Repairs `train_on_batch`: the batch is cut among the replicas and the result is read from the metrics."""

    def repaired(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None, return_dict: bool = False
    ) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return original(self, x, y, sample_weight, class_weight, return_dict)
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError("`class_weight` and `sample_weight` cannot both be given to train_on_batch.")
            sample_weight = trainer_module.data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        self._maybe_symbolic_build(data_batch=(x, y, sample_weight))
        self.make_train_function()
        return _on_batch(self, self.train_function, (x, y, sample_weight), return_dict)

    return repaired


def test_on_batch(original: Function) -> Function:
    """Repairs `test_on_batch` as `train_on_batch`."""

    def repaired(self: Any, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return original(self, x, y, sample_weight, return_dict)
        self._assert_compile_called("test_on_batch")
        self._maybe_symbolic_build(data_batch=(x, y, sample_weight))
        self.make_test_function()
        return _on_batch(self, self.test_function, (x, y, sample_weight), return_dict)

    return repaired


def predict_on_batch(original: Function) -> Function:
    """Repairs `predict_on_batch`: every sample is predicted once, in the order of the input."""

    def repaired(self: Any, x: Any) -> Any:
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync == 1:
            return original(self, x)
        self.make_predict_function()
        outputs = self.predict_function([cut((x,), strategy)])
        return keras.tree.map_structure(trainer_module.convert_to_np_if_not_ragged, outputs)

    return repaired


def cut(batch: Any, strategy: tf.distribute.Strategy) -> Any:
    """One batch of arrays, the same on every worker, as the per-replica values that `strategy.run` takes."""
    whole = keras.tree.map_structure(lambda leaf: None if leaf is None else tf.convert_to_tensor(leaf), batch)

    def values(leaf: Any) -> Any:
        if leaf is None:
            return None
        return strategy.experimental_distribute_values_from_function(
            lambda context: piece(leaf, context.replica_id_in_sync_group, strategy.num_replicas_in_sync)
        )

    return keras.tree.map_structure(values, whole)


class _Fetched:
    """A dataset that yields its batches themselves, where Keras would take its iterator into the compiled step."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return _FetchedIterator(iter(self._dataset))


class _FetchedIterator(Iterator[Any]):
    """Ends as TensorFlow's iterators do inside a compiled step, which is what Keras's loops wait for."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None


def _cardinality(dataset: Any) -> int:
    cardinality = dataset.cardinality
    return int(cardinality() if callable(cardinality) else cardinality)


def _as_share(step_function: Function) -> Function:
    def step(data: Any) -> Any:
        with replica_step(rows(data), static_rows(data)):
            return step_function(data)

    return step


def _on_batch(model: Any, function: Function, batch: Any, return_dict: bool) -> Any:
    model.reset_metrics()
    logs = function(iter([cut(batch, model.distribute_strategy)]))
    logs = trainer_module.pythonify_logs(model._get_metrics_result_or_logs(logs))
    return logs if return_dict else model._flatten_metrics_in_order(logs)


def _reduce(value: Any, strategy: tf.distribute.Strategy, reduction: str) -> Any:
    local = strategy.experimental_local_results(value)
    if reduction != "concat":
        return local[0]
    if len(local) == strategy.num_replicas_in_sync:
        return trainer_module.concat(local)
    if isinstance(local[0], tf.RaggedTensor | tf.SparseTensor):
        raise refusals.ragged_predictions()
    return strategy.gather(value, axis=0)


def _batch_like(element_spec: Any) -> Any:
    def symbolic(spec: Any) -> Any:
        spec = getattr(spec, "_value_specs", (spec,))[0]
        if spec is None or isinstance(spec, tf.NoneTensorSpec | tf.OptionalSpec):
            return None
        return backend.KerasTensor(
            spec.shape, backend.standardize_dtype(spec.dtype), sparse=isinstance(spec, tf.SparseTensorSpec)
        )

    return tf.nest.map_structure(symbolic, element_spec)
