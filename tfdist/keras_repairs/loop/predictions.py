"""The predictions that `predict` returns: rows of all replicas, on each worker, on the chief alone, or step by step."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import cut, has_rows, rows, without_stand_in
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, alone, this_step
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.coupling.global_batch import on_global_batch_where
from tfdist.keras_repairs.coupling.output_rows import axes_of_rows
from tfdist.keras_repairs.loop.fit_listeners import FitListener, notifying
from tfdist.runtime import random_state
from tfdist.runtime.workers import worker_count, worker_rank

Function = Callable[..., Any]

Take = Callable[[Any], None]


@dataclass(frozen=True)
class PredictionScope:
    """The destination of the predictions of a `predict` that a script calls.

    Attributes:
        on_chief: Whether to the chief alone.
        take: What takes them there, step by step; None where they are returned.
    """

    on_chief: bool = False
    take: Take | None = None


_EVERYWHERE = PredictionScope()

PREDICTION_SCOPE: contextvars.ContextVar[PredictionScope] = contextvars.ContextVar(
    "tfdist_predictions", default=_EVERYWHERE
)


def of_samples(step_function: Function, predict_step: Function) -> Function:
    """A step whose outputs are joined over the replicas: none has rows where its replica has no sample.

    A tensor of a fixed size, such as the anchors of a detector, which one replica returns once for each batch, is that
    of the replica with the first sample. It is told by that size: the step is traced for batches of any size, unless
    it needs a number. Where it does, a size that is a multiple of that number is taken for that of rows. So is a tensor
    whose rows are along another axis, with the rows of all replicas.

    Args:
        step_function: Predicts a replica's rows.
        predict_step: The model's, for whole batches.
    """

    def step(data: Any) -> Any:
        replica = this_step()
        if replica.share.has_all_rows:
            outputs = on_global_batch_where(predict_step, lambda: True)(data)
            _check_has_rows(outputs, predict_step)
            return tf.nest.map_structure(lambda leaf: _of_first_alone(leaf, replica), outputs)
        outputs = step_function(data)
        _check_has_rows(outputs, predict_step)
        if not tf.executing_eagerly():
            leaves = _joined_along_others(tf.nest.flatten(outputs), step_function, data)
            outputs = tf.nest.pack_sequence_as(outputs, [_of_first(leaf, replica) for leaf in leaves])
        return without_stand_in(outputs)

    return step


def _check_has_rows(outputs: Any, predict_step: Function) -> None:
    if any(isinstance(leaf, tf.Tensor) and leaf.shape.rank == 0 for leaf in tf.nest.flatten(outputs)):
        model = getattr(predict_step, "__self__", None)
        raise UnsupportedError(
            f"The model {getattr(model, 'name', '')!r} predicts a scalar, one number for a whole batch, of which every "
            "replica would return one. Expected rows. Return the number as a row, value[tf.newaxis], of which predict "
            "makes the same array, or run on one device (`tfdist train` without --workers, --nproc and "
            "--logical-devices)."
        )


def _joined_along_others(leaves: list[Any], step_function: Function, data: Any) -> list[Any]:
    """The outputs of a step, with the rows of all replicas where these are along another axis than the first."""
    with alone(), random_state.kept():
        axes = axes_of_rows(step_function, data, [has_rows(leaf) for leaf in tf.nest.flatten(data)], leaves)
    return [_joined_along(leaf, axis) if axis else leaf for leaf, axis in zip(leaves, axes, strict=True)]


def _joined_along(leaf: tf.Tensor, axis: int) -> tf.Tensor:
    order = [axis, *(other for other in range(len(leaf.shape)) if other != axis)]
    return tf.transpose(all_rows(tf.transpose(leaf, order)), [order.index(place) for place in range(len(order))])


def _of_first(leaf: Any, step: ReplicaStep) -> Any:
    if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank or leaf.shape[0] is None:
        return leaf
    if step.share.static_rows and leaf.shape[0] % step.share.static_rows == 0:
        return leaf
    return _of_first_alone(leaf, step)


def _of_first_alone(leaf: Any, step: ReplicaStep) -> Any:
    """A tensor that all replicas have computed alike, on the first, and no row of it on the others."""
    return cut(leaf, tf.constant(0, tf.int64), tf.where(step.share.first == 0, rows(leaf), 0))


def predictions_on_chief() -> contextlib.AbstractContextManager[None]:
    """Inside, `model.predict` returns predictions on the chief alone, and the other workers keep none in memory.

    There it returns arrays of the same structure, dtype and trailing shape with no row. All workers call `predict`
    together, as always. On one worker it changes nothing.
    """
    return changing(PREDICTION_SCOPE, on_chief=True)


def taking_predictions(take: Take) -> contextlib.AbstractContextManager[None]:
    """Inside, `model.predict` hands the predictions of each execution to `take`, on the chief, and keeps none.

    So they need not fit into memory. It returns arrays of the same structure, dtype and trailing shape with no row. All
    workers call `predict` together, as always; `take` is called on the chief alone, with tensors of the rows of the
    batches of the execution, in the order of the input.
    """
    return changing(PREDICTION_SCOPE, take=take)


def predict(original: Function, listener: FitListener) -> Function:
    """Repairs `TensorFlowTrainer.predict`: heeds the two contexts above, and notifies the listener."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        strategy, scope = self.distribute_strategy, PREDICTION_SCOPE.get()
        is_chief = worker_count(strategy) == 1 or worker_rank(strategy) == 0
        if scope.take is None and (not scope.on_chief or is_chief):
            return original(self, *args, **kwargs)
        self.make_predict_function()
        whole = self.predict_function
        self.predict_function = _without_rows(whole, scope.take if is_chief else None)
        try:
            return original(self, *args, **kwargs)
        finally:
            self.predict_function = whole

    return notifying(repaired, "predict", listener)


def gather(value: Any, strategy: tf.distribute.Strategy) -> Any:
    """Joins what the replicas of all workers predicted, in the order of the replicas, which is that of the input.

    Args:
        value: What `strategy.run` returned: one dense or ragged tensor a replica, of which the rows may be none.
        strategy: Of several workers; call it outside of the replicas, on all workers.

    Raises:
        UnsupportedError: The tensors are sparse, or of a dtype that cannot be sent.
    """

    def on_replica(part: Any) -> Any:
        return all_rows(part[tf.newaxis] if part.shape.rank == 0 else part)

    return strategy.experimental_local_results(strategy.run(on_replica, args=(value,)))[0]


def _without_rows(function: Function, take: Take | None = None) -> Function:
    """`function` of one batch after another, with no row in its outputs; `take` gets them whole."""
    first: list[Any] = []

    def run(batches: Any) -> Any:
        outputs = function(batches)
        if take is not None:
            take(outputs)
        if not first:
            first.append(tf.nest.map_structure(lambda output: output[:0], outputs))
        # Those of later batches may have another length, with which Keras cannot join what has no row.
        return first[0]

    return run
