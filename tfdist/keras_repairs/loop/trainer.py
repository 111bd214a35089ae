"""Repairs of the functions that Keras's TensorFlow trainer runs for each step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module

from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.batch_rows import rows, static_rows, with_row_of_zeros, without_stand_in
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.draw_streams import new_streams
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_step, this_step
from tfdist.keras_repairs.base.step_records import BatchShare, Mode, StepTrace
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.batch_branches import DecidedByBatch, finding_branches
from tfdist.keras_repairs.coupling.call_scope import CALL_SCOPE
from tfdist.keras_repairs.coupling.gathered_batch import which_gathered
from tfdist.keras_repairs.coupling.global_batch import on_global_batch_where, rows_of_global_batch_where
from tfdist.keras_repairs.coupling.own_steps import EagerBranches, eager_predictions, exact_predictions, tried_out
from tfdist.keras_repairs.coupling.trials.kept_tensors import KeptTensors, in_step_of
from tfdist.keras_repairs.first_step.checked_step import CheckedStep, Sharing
from tfdist.keras_repairs.inputs.data_adapters import given, replica_batch_of
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, FetchedBatch
from tfdist.keras_repairs.loop import predictions
from tfdist.keras_repairs.loop.batch_logs import sharing_logs
from tfdist.keras_repairs.loop.compilation import compiles_parts, leave_updates_out_of_xla
from tfdist.keras_repairs.loop.fit_listeners import (
    FitListener,
    TrainerMethod,
    notifying_executions,
    notifying_predictions,
)
from tfdist.keras_repairs.loop.step_execution import OneStep, PredictingSteps, TraceAgain, execution
from tfdist.keras_repairs.loop.step_logs import StepLogs, noting_logs
from tfdist.keras_repairs.loop.step_sizes import StepSizes
from tfdist.keras_repairs.loop.unknown_size import saying_unknown_size
from tfdist.keras_repairs.loop.xla_step import may_be_compiled
from tfdist.keras_repairs.model_checks.described_layouts import warn_of_layouts
from tfdist.keras_repairs.model_checks.model_facts import (
    has_unbuilt_trackers,
    is_overridden,
    is_users_step,
    unbuilt_parts,
)
from tfdist.keras_repairs.model_checks.refusals import check_reductions, deciding_by_batch, meeting_in_a_branch
from tfdist.keras_repairs.optimizer.gradient_reduction import build_optimizer
from tfdist.keras_repairs.random_numbers.seeded_draws import check_seeds_are_used
from tfdist.keras_repairs.random_numbers.seeds import check_same_seeds
from tfdist.keras_repairs.writes.write_functions import check_results_are_used
from tfdist.runtime.batches.replica_batches import GlobalBatch, ReplicaBatch
from tfdist.runtime.step_meter import StepMeter
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled, CompiledSums
from tfdist.runtime.workers import local_replicas, worker_count
from tfdist.text import safe_str

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
            leave_updates_out_of_xla(self)
        if self.distribute_strategy.num_replicas_in_sync == 1:
            meter = settings_of(self.distribute_strategy).meter if call == "fit" and not self.jit_compile else None
            step = _metered(_observed(step_function, observer), meter)
            one_step = OneStep(self, lambda data: step(given(data)), "auto", jit_compile=bool(self.jit_compile))
            if call == "fit":
                fit_state(self).trace_step = one_step.trace_for
            function = _timing_fetches(_accepting_batch_iterators(one_step, original(self, step)), meter)
            function = notifying_executions(function, self, call, listener)
            return saying_unknown_size(function, self) if call == "fit" else function
        users = is_users_step(self, name)
        if not users:
            check_reductions(self)
        branches = None if users else EagerBranches(self, step_function)
        sharing = Sharing(new_streams(self, call), eager_branches=branches)
        step = _observed(on_global_batch_where(step_function, lambda: sharing.on_global_batch), observer)
        logs = StepLogs(self) if users or is_overridden(self, "compute_metrics") else None
        step = step if logs is None else logs.of_step(step)
        step = tried_out(self, step_function, step) if users else step
        of_replica = _Step(self, step, sharing, users=users, trains=call == "fit")
        uncompiled = _Step(self, step, sharing, users=users, trains=call == "fit", uncompiled=True)
        checked = CheckedStep(self, step_function, sharing, lambda: _names_of_results(self, logs))
        meter = settings_of(self.distribute_strategy).meter if call == "fit" else None
        steps = execution(self, of_replica, call, listener, checked, uncompiled)
        function = noting_logs(_timing_fetches(steps, meter), self, logs)
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
        step, is_own = self.predict_step, is_overridden(self, "predict_step")
        sharing = Sharing(eager_branches=None if is_own else EagerBranches(self, step))
        if is_own:
            step = exact_predictions(self, step)
        elif self.run_eagerly:
            step = eager_predictions(self, step)
        step = rows_of_global_batch_where(lambda: sharing.on_global_batch, self.predict_step, step)
        step = predictions.of_samples(step, self.predict_step)
        of_replica = _Step(self, step, sharing, can_run_whole=False)
        uncompiled = _Step(self, step, sharing, uncompiled=True, can_run_whole=False)
        checked = CheckedStep(self, self.predict_step, sharing, lambda: ())
        steps = PredictingSteps(self, of_replica, checked, uncompiled)

        def several_steps(batches: list[Any]) -> Any:
            outputs = [steps(batch) for batch in batches]
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


def _names_of_results(model: Any, logs: StepLogs | None) -> Collection[str]:
    """Returns what a step logs that are results of metrics: everything in steps of Keras's."""
    return logs.results if logs is not None else model.get_metrics_result()


class _Step:
    """A step of Keras's or the user's as each replica runs it, on its share of the global batch.

    Attributes:
        can_loop: Whether several steps can run in one execution, as far as the traces so far tell. TensorFlow holds a
            collective to one size within an execution, and workers may gather tensors whose sizes differ by step.
    """

    def __init__(
        self,
        model: Any,
        function: Function,
        sharing: Sharing,
        *,
        users: bool = False,
        trains: bool = False,
        uncompiled: bool = False,
        can_run_whole: bool = True,
    ) -> None:
        self._sharing = sharing
        self._model = model
        self._function = function
        self._sizes = StepSizes(model.distribute_strategy.num_replicas_in_sync, can_run_whole=can_run_whole)
        self._meter = settings_of(model.distribute_strategy).meter if trains and not uncompiled else None
        self._trains = trains
        self._strategy = model.distribute_strategy
        self._users = users
        self._draws_by_xla = bool(model.jit_compile) and not uncompiled
        parts = functools.partial(compiles_parts, model, trains=trains, of_rest=may_be_compiled(model))
        self._compiles = (lambda: False) if uncompiled else parts
        self._has_peers = worker_count(self._strategy) > 1
        self._unbuilt: list[Any] = []
        self._never_built: list[Any] = []
        self.can_loop = not self._has_peers

    def __call__(self, batch: Any) -> Any:
        return self.with_piece(batch, lambda piece: self.of_piece(piece, compiles=self._compiles()))

    def with_piece(self, batch: Any, run: Callable[[ReplicaBatch], Any]) -> Any:
        """Returns what `run` returns for this replica's piece of a batch, which is counted and timed."""
        batch = given(batch)
        replicas = self._strategy.num_replicas_in_sync
        if isinstance(batch, GlobalBatch):
            batch = _replica_batch_of(batch.data, replicas)
        elif not isinstance(batch, ReplicaBatch):
            batch = _counted(batch, replicas)
        if self._meter is not None and _is_first_here(self._strategy):
            self._meter.arrive(batch.data)
            self._meter.count(batch.total)
        return run(batch)

    def of_piece(self, batch: ReplicaBatch, *, compiles: bool) -> Any:
        """The outputs of a replica's step on its piece.

        Args:
            batch: The piece.
            compiles: Whether XLA compiles the forward and backward pass of the model by itself.
        """
        has_all_rows = not isinstance(batch.whole, tuple)
        if has_all_rows:
            warn_once(
                f"Every replica takes whole batches of the data of {self._model.name!r}, whose tensors have different "
                "numbers of rows: exact, and no faster than one device. Where each sample has one element of every "
                "tensor, such as a graph with its edges in a ragged tensor, replicas take parts of the samples."
            )
        data, total = (batch.data, None) if has_all_rows else self._sizes.given(batch)
        share = _share_of(batch, data, total, self._strategy.num_replicas_in_sync)
        trace = StepTrace(compiles, self._draws_by_xla)
        mode = Mode(on_global_batch=has_all_rows or self._sizes.runs_whole)
        step = ReplicaStep(share, self._users, mode, trace, data=data)
        if not tf.executing_eagerly():
            # Tables beside the samples are the same on all replicas.
            leaves = tf.nest.flatten(data)
            of_samples = which_gathered(leaves, step)
            step.noted.shared.extend(leaf for leaf, has in zip(leaves, of_samples, strict=True) if not has)
        if self._sharing.streams is not None:
            tensorflow_seeds.draw_by(self._sharing.streams.of_replica(_place_here(self._strategy)))
        with (
            replica_step(step),
            in_step_of(self._model),
            changing(CALL_SCOPE, runs_eagerly=tf.executing_eagerly()),
            self._sizes.retracing(),
            self._building(step),
        ):
            try:
                outputs = self._shared_out(data)
            except RuntimeError as error:
                if "merge_call" not in safe_str(error):
                    raise
                if isinstance(settings_of(self._strategy).sums, CompiledSums):
                    raise CannotBeCompiled("TensorFlow would leave the replica in it") from error
                raise meeting_in_a_branch(self._model) from error
            self._sizes.check(outputs)
            if self._sizes.runs_whole:
                _say_why_whole(self._model, total, self._strategy.num_replicas_in_sync)
            check_results_are_used(step, outputs)
            check_seeds_are_used()
            if tf.executing_eagerly():
                check_same_seeds(step)
        self.can_loop = not (self._has_peers and (self._users or step.noted.gathers))
        self._sharing.draws_own |= step.noted.draws_own
        return outputs

    def _shared_out(self, data: Any) -> Any:
        """The outputs of the step, in which the values of the batch decide no branch outside of what is tried out.

        Raises:
            UnsupportedError: They do.
        """
        if this_step().trace.builds or not settings_of(self._strategy).gather:
            return self._function(data)
        try:
            if not tf.executing_eagerly():
                return finding_branches(lambda: self._function(data))
            branches = None if self._sharing.on_global_batch else self._sharing.eager_branches
            if branches is not None and branches.are_decided_by(data):
                raise DecidedByBatch
            outputs = self._function(data)
            # The step may have built what it lacked.
            if branches is not None and branches.are_decided_by(data):
                raise DecidedByBatch
            return outputs
        except DecidedByBatch:
            raise deciding_by_batch(self._model) from None

    @contextlib.contextmanager
    def _building(self, step: ReplicaStep) -> Iterator[None]:
        """Around a trace: it builds what the model lacks. Another one is made then.

        A layer that is just being built is neither tried out, nor gathered, nor compiled. What a model keeps of a step
        remains as it was before a trace that never runs.

        Raises:
            TraceAgain: The trace was one to build in, and is not kept.
        """
        if tf.executing_eagerly():
            yield
            return
        if _is_first_here(self._strategy):
            self._unbuilt = self._lacking()
            if self._trains and not self._unbuilt:
                warn_of_layouts(self._model)
            if self._trains and not self._users and not self._unbuilt:
                build_optimizer(self._model.optimizer, self._model.trainable_weights)
        unbuilt = self._unbuilt
        if not unbuilt or unbuilt == self._never_built:
            yield
            return
        kept = KeptTensors(self._model)
        refusal: Exception | None = None
        state = kept.read()
        try:
            with replica_step(step.traced_with(builds=True)):
                yield
        except (TraceAgain, CannotBeCompiled):
            raise
        except Exception as error:  # It may be of what is not known before the next trace.
            refusal = error
        finally:
            kept.write(state)
        self._never_built = self._lacking()
        # Nothing was tried out in it, so it is not kept, even if what was lacking still is: layers that no step calls.
        if self._never_built != unbuilt or refusal is None:
            raise TraceAgain from refusal
        raise refusal

    def _lacking(self) -> list[Any]:
        # Its `scale_loss` is that of its first step as long as it is not built.
        scalers = [o for o in optimizers_of(self._model) if isinstance(o, keras.optimizers.LossScaleOptimizer)]
        unbuilt = [scaler for scaler in scalers if not scaler.built] if self._trains and self._users else []
        if self._users and has_unbuilt_trackers(self._model):
            unbuilt.append(self._model._compile_loss)
        return [*unbuilt_parts(self._model, with_metrics=self._users), *unbuilt]


def _say_why_whole(model: keras.Model, total: int | None, replicas: int) -> None:
    is_even = total is not None and total % replicas == 0
    warn_once(
        f"A step of {model.name!r} takes the size of its batches for a number (x.shape[0]), "
        + ("and needs that of the whole batch. " if is_even else "which has no equal parts. ")
        + f"It runs whole on every replica, with all {total} samples: exact, and no faster than one device. Write "
        "keras.ops.shape(x)[0]" + ("." if is_even else f", or choose a batch size that is a multiple of {replicas}.")
    )


def _is_first_here(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the replica being traced is the first of this worker's."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return replica is not None and int(replica) == local_replicas(strategy).start


def _place_here(strategy: tf.distribute.Strategy) -> int:
    """The place of the replica being traced among those of this worker; 0 where one trace is for all."""
    replica = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    return 0 if replica is None else int(replica) - local_replicas(strategy).start


def _replica_batch_of(whole: Any, replicas: int) -> ReplicaBatch:
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return replica_batch_of(whole, rows(whole), replica, replicas)


def _share_of(batch: ReplicaBatch, data: Any, static_total: int | None, replicas: int) -> BatchShare:
    """The share of a replica that works on `data`, which are those of `batch` or stand in for them."""
    counting = None if isinstance(batch.counting, tuple) else batch.counting
    capacity = None if isinstance(batch.largest, tuple) else -(-batch.largest // replicas)
    # Eagerly all sizes are numbers, those of a table beside the samples, too.
    has_all_rows = not isinstance(batch.whole, tuple)
    is_eager = tf.executing_eagerly() and not has_all_rows
    held = tf.maximum(batch.samples, 1) if is_eager else rows(data)
    rows_known = int(held) if is_eager else static_rows(data)
    # In a graph, where what follows from them can be told from what is the same on all replicas.
    samples, first = (each if tf.executing_eagerly() else tf.identity(each) for each in (batch.samples, batch.first))
    known = rows_known, static_total, capacity, has_all_rows, _are_equal(batch, replicas)
    return BatchShare(samples, held, first, batch.total, counting, *known)


def _are_equal(batch: ReplicaBatch, replicas: int) -> bool:
    """Returns whether all replicas are known to have as many samples of a batch."""
    total = None if isinstance(batch.extent, tuple) else batch.extent.shape[0]
    if total is None and tf.executing_eagerly():
        total = int(batch.total)
    return total is not None and total % replicas == 0


def _counted(batch: Any, replicas: int) -> ReplicaBatch:
    """The piece of what a user has distributed. It has no stand-in row, and which batch is the largest is not known."""
    replica, samples = tf.distribute.get_replica_context().replica_id_in_sync_group, rows(batch)
    (each,) = replica_sums.sum_over_replicas([samples * tf.one_hot(replica, replicas, dtype=samples.dtype)])
    first, total = tf.reduce_sum(each[:replica]), tf.reduce_sum(each)
    return ReplicaBatch(with_row_of_zeros(batch), samples, first, total, tf.math.count_nonzero(each), ())


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


def _accepting_batch_iterators(one_step: OneStep, function: Function) -> Function:
    """The function that Keras calls with an iterator on one replica, where batches may be fetched outside of steps.

    Keras would trace the step with the rows of the first batch, and count the losses of several outputs by them; inside
    of a compiled step it does not know the rows, and counts batches.
    """

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
