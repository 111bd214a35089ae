"""Repairs of the functions that Keras's TensorFlow trainer runs for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import rows, static_rows, with_row_of_zeros, without_stand_in
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_step
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.own_predictions import eager_predictions, exact_predictions
from tfdist.keras_repairs.coupling.own_steps import tried_out
from tfdist.keras_repairs.coupling.trials.kept_tensors import in_step_of
from tfdist.keras_repairs.inputs.data_adapters import replica_batch_of
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, FetchedBatch
from tfdist.keras_repairs.loop import predictions
from tfdist.keras_repairs.loop.batch_logs import sharing_logs
from tfdist.keras_repairs.loop.fit_listeners import (
    FitListener,
    TrainerMethod,
    notifying_executions,
    notifying_predictions,
)
from tfdist.keras_repairs.loop.step_execution import execution, one_step_of
from tfdist.keras_repairs.loop.step_logs import StepLogs, noting_logs
from tfdist.keras_repairs.loop.step_sizes import StepSizes
from tfdist.keras_repairs.loop.unknown_size import saying_unknown_size
from tfdist.keras_repairs.model_checks.batch_norm_choice import synchronized_layers
from tfdist.keras_repairs.model_checks.refusals import meeting_in_a_branch
from tfdist.keras_repairs.model_checks.user_overrides import is_overridden, is_users_step
from tfdist.keras_repairs.random_numbers.seeds import check_same_seeds
from tfdist.keras_repairs.sharded_parameters.layer_scopes import cuts_parameters
from tfdist.runtime.batches.distribute import GlobalBatch, ReplicaBatch
from tfdist.runtime.step_meter import StepMeter
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.workers import local_replicas, worker_count

Function = Callable[..., Any]
Observer = Callable[[Any], None]


def make_function(original: Function, observer: Observer | None, listener: FitListener) -> Function:
    """Repairs `TensorFlowTrainer._make_function`: each replica's step knows its share of the global batch.

    Args:
        original: The method.
        observer: Called, while a step is traced, with each replica's data.
        listener: Notified of every execution.
    """

    def repaired(self: Any, step_function: Function) -> Function:
        name = "train_step" if step_function == self.train_step else "test_step"
        call: TrainerMethod = "fit" if name == "train_step" else "evaluate"
        if call == "fit":
            _leave_updates_out_of_xla(self)
        if self.distribute_strategy.num_replicas_in_sync == 1:
            meter = settings_of(self.distribute_strategy).meter if call == "fit" and not self.jit_compile else None
            step = _metered(_observed(step_function, observer), meter)
            function = _timing_fetches(_accepting_batch_iterators(self, step, original(self, step)), meter)
            function = notifying_executions(function, self, call, listener)
            return saying_unknown_size(function, self) if call == "fit" else function
        users = is_users_step(self, name)
        step = _observed(step_function, observer)
        logs = StepLogs(self) if users or is_overridden(self, "compute_metrics") else None
        step = step if logs is None else logs.of_step(step)
        step = tried_out(self, step_function, step) if users else step
        whole = _Step(self, step, users=users, trains=call == "fit")
        meter = settings_of(self.distribute_strategy).meter if call == "fit" else None
        function = noting_logs(_timing_fetches(execution(self, whole, call, listener), meter), self, logs)
        function = sharing_logs(function, self, call)
        return saying_unknown_size(function, self) if call == "fit" else function

    return repaired


def make_predict_function(original: Function, listener: FitListener) -> Function:
    """Repairs `TensorFlowTrainer.make_predict_function` as `_make_function`; outputs are joined in input order."""

    def repaired(self: Any, force: bool = False) -> Any:
        if self.predict_function is not None and not force:
            return original(self, force)
        if self.distribute_strategy.num_replicas_in_sync == 1:
            original(self, force)
            self.predict_function = notifying_predictions(self.predict_function, listener)
            return None
        step = self.predict_step
        if is_overridden(self, "predict_step"):
            step = exact_predictions(self, step)
        elif self.run_eagerly:
            step = eager_predictions(self, step)
        one_step = one_step_of(self, _Step(self, predictions.of_samples(step), any_size_first=True), "concat")

        def several_steps(batches: list[Any]) -> Any:
            outputs = [one_step(batch) for batch in batches]
            return tf.nest.map_structure(lambda *parts: trainer_module.concat(list(parts)), *outputs)

        self.predict_function = notifying_predictions(several_steps, listener)
        return None

    return repaired


def reduce_per_replica(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.trainer.reduce_per_replica`.

    The logs of a step are the worker's own, which costs no collective; at the end of an epoch Keras reads the metrics
    themselves, which sums them over all replicas. Predictions are joined in the order of the replicas, which is that
    of the input.
    """

    def repaired(values: Any, strategy: tf.distribute.Strategy, reduction: str) -> Any:
        if strategy.num_replicas_in_sync == 1:
            return original(values, strategy, reduction)
        return tf.nest.map_structure(lambda value: _reduce(value, strategy, reduction), values)

    return repaired


class _Step:
    """A step of Keras's or the user's as each replica runs it, on its share of the global batch.

    Attributes:
        can_loop: Whether several steps can run in one execution, as far as the traces so far tell. TensorFlow holds a
            collective to one size within an execution, and workers may gather tensors whose sizes differ by step.
    """

    def __init__(
        self, model: Any, function: Function, *, users: bool = False, trains: bool = False, any_size_first: bool = False
    ) -> None:
        self._model = model
        self._function = function
        self._sizes = StepSizes(any_first=any_size_first)
        self._meter = settings_of(model.distribute_strategy).meter if trains else None
        self._strategy = model.distribute_strategy
        compiles = _compiles(model, trains=trains)
        self._options = {"users": users, "compiles": compiles, "draws_by_xla": bool(model.jit_compile)}
        self._has_peers = worker_count(self._strategy) > 1
        self.can_loop = not self._has_peers

    def __call__(self, batch: Any) -> Any:
        batch = _given(batch)
        if isinstance(batch, GlobalBatch):
            batch = _replica_batch_of(batch.data, self._strategy.num_replicas_in_sync)
        # What a user has distributed has no stand-in row, and no replica can read another's.
        data = batch.data if isinstance(batch, ReplicaBatch) else with_row_of_zeros(batch)
        data = self._sizes.given(data)
        step = _step_of(batch, data, self._strategy.num_replicas_in_sync, **self._options)
        if self._meter is not None and _is_first_here(self._strategy):
            self._meter.arrive(data)
            self._meter.count(step.total)
        with replica_step(step), in_step_of(self._model), self._sizes.retracing():
            try:
                outputs = self._function(data)
            except RuntimeError as error:
                if "merge_call" not in str(error):
                    raise
                raise meeting_in_a_branch(self._model) from error
            if tf.executing_eagerly():
                check_same_seeds(step)
        self.can_loop = not (self._has_peers and step.gathers)
        return outputs


def _compiles(model: Any, *, trains: bool) -> bool:
    """Whether XLA compiles the forward and backward pass of a model's step, which it cannot where replicas meet in it.

    Compiling the layers between the normalizations one by one would lose what XLA gains by joining them.
    """
    if model.jit_compile and cuts_parameters():
        raise UnsupportedError(
            f"compile(jit_compile=True): XLA would have all weights of {model.name!r} whole at once, of which --shard "
            "zero3 leaves each worker a part. Leave jit_compile out, or train with --shard zero2."
        )
    if not model.jit_compile or not (trains and synchronized_layers(model)):
        return bool(model.jit_compile)
    warn_once(
        f"compile(jit_compile=True): the training of {model.name!r} is not compiled with XLA, as the replicas exchange "
        "the statistics of BatchNormalization in its middle. --batch-norm replica compiles it, and is not exact."
    )
    return False


def _leave_updates_out_of_xla(model: Any) -> None:
    """A step of one replica is compiled with its updates, which XLA cannot leave to the host."""
    alone = model.distribute_strategy.num_replicas_in_sync == 1
    if alone and model.jit_compile and settings_of(model.distribute_strategy).offload is not None:
        warn_once(f"The training of {model.name!r} is not compiled with XLA: --offload optimizer updates on the host.")
        model.jit_compile = False


def _given(batch: Any) -> Any:
    """A batch with None for absent parts, which a dataset holds as empty optionals."""
    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def _is_first_here(strategy: tf.distribute.Strategy) -> bool:
    """Whether the replica being traced is the first of this worker's."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return replica is not None and int(replica) == local_replicas(strategy).start


def _replica_batch_of(whole: Any, replicas: int) -> ReplicaBatch:
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return replica_batch_of(whole, rows(whole), replica, replicas)


def _step_of(batch: Any, data: Any, replicas: int, **options: bool) -> ReplicaStep:
    """The step of a replica that works on `data`, which are those of `batch` or stand in for them."""
    if isinstance(batch, ReplicaBatch):
        samples, first, total = batch.samples, batch.first, batch.total
        counting = None if isinstance(batch.counting, tuple) else batch.counting
        capacity = -(-batch.largest // replicas)
    else:
        samples, capacity = rows(batch), None
        first, total, counting = _counted(samples, replicas)
    return ReplicaStep(samples, rows(data), first, total, counting, static_rows(data), capacity=capacity, **options)


def _counted(samples: tf.Tensor, replicas: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The place of this replica's first sample in the global batch, its samples, and how many replicas have any."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    (each,) = replica_sums.sum_over_replicas([samples * tf.one_hot(replica, replicas, dtype=samples.dtype)])
    return tf.reduce_sum(each[:replica]), tf.reduce_sum(each), tf.math.count_nonzero(each)


def _observed(step_function: Function, observer: Observer | None) -> Function:
    if observer is None:
        return step_function

    def step(data: Any) -> Any:
        observer(without_stand_in(data))
        return step_function(data)

    return step


def _metered(step_function: Function, meter: StepMeter | None) -> Function:
    """The step of a single replica, with its samples counted and the waiting for them timed."""
    if meter is None:
        return step_function

    def step(data: Any) -> Any:
        meter.arrive(data)
        meter.count(rows(data))
        return step_function(data)

    return step


def _accepting_batch_iterators(model: Any, step: Function, function: Function) -> Function:
    """The function that Keras calls with an iterator on one replica, where batches may be fetched outside of steps.

    Keras would trace the step with the rows of the first batch, and count the losses of several outputs by them; inside
    of a compiled step it does not know the rows, and counts batches.
    """
    one_step = one_step_of(model, lambda data: step(_given(data)), "auto", jit_compile=bool(model.jit_compile))

    def execute(iterator: Any) -> Any:
        if not isinstance(iterator, BatchIterator):
            return function(iterator)
        return one_step(FetchedBatch(next(iterator), iterator.iterator.element_spec))

    return execute


def _timing_fetches(function: Function, meter: StepMeter | None) -> Function:
    """The function that Keras calls with an iterator, with the fetching of batches outside of compiled steps timed."""
    if meter is None:
        return function

    def execute(iterator: Any) -> Any:
        if isinstance(iterator, BatchIterator):
            iterator.meter = meter
        return function(iterator)

    return execute


def _reduce(value: Any, strategy: tf.distribute.Strategy, reduction: str) -> Any:
    local = strategy.experimental_local_results(value)
    if reduction != "concat":
        return local[0]
    return predictions.gather(value, strategy)
