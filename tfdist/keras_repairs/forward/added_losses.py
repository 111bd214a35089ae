"""Repairs of `add_loss` and activity regularizers: each replica keeps its own losses, or all rows are gathered.

Keras keeps them in a list of the layer, which the replicas of one process share. Replicas are traced in turn, and the
turn passes at every collective: one replica would clear or read what another one added.

Keras's own are sums over the rows of a batch. One of the user's may be a mean, or compare the rows with one another, as
a penalty on the covariance of features does. Since 3.14 Keras divides the result by the rows of the output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from keras.src import backend

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import rows
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.loss_scope import LOSS_SCOPE, Kind
from tfdist.keras_repairs.base.replica_step import (
    alone,
    current_step,
    is_of_own_loop,
    is_one_of_several,
    replica_count,
    sum_over_replicas,
    this_step,
)
from tfdist.keras_repairs.base.warn_once import point_out_once, say_once, warn_once
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.call_scope import Losses, collected
from tfdist.keras_repairs.coupling.declarations import summed_over_replicas
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_scalar
from tfdist.keras_repairs.coupling.shown_of_layers import shown_of
from tfdist.keras_repairs.coupling.trials.loss_trial import Verdict, try_out
from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples
from tfdist.keras_repairs.coupling.trials.recorded_layers import current_recording
from tfdist.keras_repairs.coupling.trials.steps.step_capture import scaled_term
from tfdist.keras_repairs.coupling.trials.trial_scope import share_on_trial
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.text import safe_repr

Function = Callable[..., Any]


def add_loss(original: Function) -> Function:
    """Repairs `Layer.add_loss`."""

    def repaired(self: Any, loss: Any) -> None:
        losses = _losses()
        if losses is None:
            original(self, loss)
            return
        terms = keras.tree.flatten(loss)
        for term in terms:
            if not keras.ops.is_tensor(term):
                raise ValueError(f"add_loss() takes tensors. Received: {safe_repr(term)} of type {type(term).__name__}")
        losses.setdefault(id(self), []).extend(terms)
        if losses is _OF_LOOP.losses and _OF_LOOP.depth:
            _OF_LOOP.added_now.add(id(self))

    return repaired


def clear_losses(original: Function) -> Function:
    """Repairs `Layer._clear_losses`: a layer that is called again from outside of all layers forgets its losses."""

    def repaired(self: Any) -> None:
        losses = _losses()
        if losses is not None:
            losses.pop(id(self), None)
            _OF_LOOP.rows.pop(id(self), None)
        original(self)

    return repaired


def get_own_losses(original: Function) -> Function:
    """Repairs `Layer._get_own_losses`."""

    def repaired(self: Any) -> list[Any]:
        losses = _losses()
        terms: list[Any] = original(self) if losses is None else list(losses.get(id(self), ()))
        return [scaled_term(term) for term in terms] if is_of_own_loop() else terms

    return repaired


class _TermsOfLoop(threading.local):
    """What layers have added for a replica in a loop of the user's: each has a thread of its own.

    Attributes:
        losses: By the layer's id.
        rows: How many rows the outermost layer was called with in which each has added them, by its id: a scalar int64
            tensor, the same one for all that were added in one call.
        depth: How many layers are being called, one within the other.
        added_now: The ids of those that have added terms in the call of the outermost.
    """

    def __init__(self) -> None:
        self.losses: Losses = {}
        self.rows: dict[int, tf.Tensor] = {}
        self.depth = 0
        self.added_now: set[int] = set()


_OF_LOOP = _TermsOfLoop()


def terms_of(layer: Any) -> list[Any]:
    """Returns what a layer has added, in the list that holds it."""
    losses = _losses()
    terms: list[Any] = layer._losses if losses is None else losses.get(id(layer), [])
    return terms


def _losses() -> Losses | None:
    """Returns where losses are kept now, if it is not in the layers."""
    losses, step = collected(), current_step()
    if losses is None and step is not None:
        return step.noted.added_losses
    return _OF_LOOP.losses if losses is None and _is_of_loop() else losses


def _is_of_loop() -> bool:
    # A layer that is built by its call keeps nothing of that. Trials assign within such a scope as well.
    return is_one_of_several() and current_step() is None and (is_of_own_loop() or not backend.in_stateless_scope())


def share_of_terms(dtype: tf.DType) -> tf.Tensor | None:
    """The part of the rows of all replicas that this one has, in a loop of the user's where layers have added terms.

    The replicas sum their rows, which TensorFlow does in the graph of a replica's function alone.

    Returns:
        A scalar: the same for all replicas if models whose rows they share otherwise have added them. None elsewhere,
        and where no layer has added any.
    """
    if not _OF_LOOP.losses or not _is_of_loop():
        return None
    if replica_sums.is_in_branch():
        point_out_once(
            "tf.nn.scale_regularization_loss is called inside of a branch, a loop or a tf.function of the function of "
            "a replica. There it divides what layers have added by the number of replicas, also where they have "
            "different numbers of rows. Call it in the function itself."
        )
        return None
    calls = {id(rows): rows for layer in _OF_LOOP.losses if (rows := _OF_LOOP.rows.get(layer)) is not None}
    # A model that a function of its own has called is not seen here.
    here = (None, tf.compat.v1.get_default_graph())
    own = [rows for rows in calls.values() if getattr(rows, "graph", None) in here]
    if not own or len(own) < len(calls):
        return None
    of_all = replica_sums.sum_over_replicas(own)
    are_known = of_all[0] > 0
    if len(own) > 1:
        # Models may be called with several rows for each sample: their shares are to be the same on all replicas.
        apart = [tf.abs(rows * of_all[0] - own[0] * total) for rows, total in zip(own[1:], of_all[1:], strict=True)]
        are_known = tf.logical_and(are_known, replica_sums.sum_over_replicas([tf.add_n(apart)])[0] == 0)
    equal = tf.ones([], tf.float64) / replica_count()
    # In float16 there are at most 65504 rows.
    return tf.cast(tf.where(are_known, tf.cast(own[0], tf.float64) / tf.cast(of_all[0], tf.float64), equal), dtype)


_SUMS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)
"""Keras's regularizers that are sums over the rows."""


class _OfActivity(keras.losses.Loss):
    """A regularizer as a loss of predictions alone."""

    def __init__(self, regularizer: Function, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.regularizer = regularizer

    def call(self, y_true: Any, y_pred: Any) -> Any:
        # In a step, the sum of a loss that it calls counts as a mean, as any that a layer calls.
        with changing(LOSS_SCOPE, sums_own=False):
            return self.regularizer(y_pred)


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: the last terms that it adds are those of the activity regularizer, one an output."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        _OF_LOOP.depth += 1
        try:
            outputs = original(self, *args, **kwargs)
            if _OF_LOOP.depth == 1 and _OF_LOOP.added_now:
                _OF_LOOP.rows.update(dict.fromkeys(_OF_LOOP.added_now, rows((args, kwargs))))
        finally:
            _OF_LOOP.depth -= 1
            if not _OF_LOOP.depth:
                _OF_LOOP.added_now.clear()
        if getattr(self, "activity_regularizer", None) is not None and _is_of_some_rows():
            _share_out(self, [output for output in keras.tree.flatten(outputs) if ops.is_tensor(output)])
        return outputs

    return repaired


def _is_of_some_rows() -> bool:
    """Returns whether the layer has a part of the batch alone; the trial of a layer finds out by itself what its terms
    are."""
    return current_recording() is None and (current_step() is not None or share_on_trial() < 1)


def _share_out(layer: Any, outputs: list[tf.Tensor]) -> None:
    """Has the terms of the outputs, which a layer has just added, be means over the samples."""
    terms = terms_of(layer)
    for place, output in enumerate(outputs, start=len(terms) - len(outputs)):
        # Those of a layer that was tried out, or has the rows of all replicas, are marked already.
        if not call_scope.is_mean(terms[place]):
            terms[place] = call_scope.marked_as_mean(_mean_of(layer, terms[place], output))


def _mean_of(layer: Any, term: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
    """A replica's value of a term, whose mean over the replicas, weighted by their samples, is that of one device."""
    kind = _kind_of(layer, output)
    if kind is Kind.SUM:
        return term if DIFFERENCES.activity_is_of_a_row else summed_over_replicas(ops.sum(term))
    if kind is Kind.MEAN:
        return term * _share_of_rows(output, term.dtype) if DIFFERENCES.activity_is_of_a_row else term
    rows = gathered_for_scalar(output, dtype=output.dtype)
    with alone():
        value = layer.activity_regularizer(rows)
    return ops.divide_no_nan(value, _rows_of(rows, value.dtype)) if DIFFERENCES.activity_is_of_a_row else value


def _kind_of(layer: Any, output: tf.Tensor) -> Kind | None:
    """Returns what a regularizer gives; None where it has to be gathered."""
    if type(layer.activity_regularizer) in _SUMS:
        return Kind.SUM
    if current_step() is None:
        # The trial of a layer around this one looks at its own terms alone.
        return Kind.SUM
    if not settings_of(tf.distribute.get_strategy()).gather:
        warn_once(
            f"gather: off. The activity regularizer of {layer.name!r} is not tried out, and taken for a sum over the "
            "samples. If it is anything else, N replicas do not give the numbers of one."
        )
        return Kind.SUM
    if not output.shape.rank or not is_of_samples(output):
        raise UnsupportedError(
            f"The activity regularizer of {layer.name!r} is called with a tensor of shape {tuple(output.shape)}, whose "
            "first dimension is not that of the samples, so it cannot be told what replicas can share of it. Expected "
            "an output with a row for each sample. Or run on one device (`tfdist train` without --workers, --nproc "
            "and --logical-devices)."
        )
    verdict = _verdict(layer, output)
    if verdict.kind is None:
        say_once(
            f"the activity regularizer of {layer.name!r} is taken of the samples of all replicas, gathered in each "
            f"step: {verdict.reason}."
        )
    return verdict.kind


def _verdict(layer: Any, output: tf.Tensor) -> Verdict:
    verdicts = shown_of(layer).activity
    regularizer = layer.activity_regularizer
    kind = str((id(regularizer), output.shape[1:], output.dtype))
    if kind not in verdicts:
        dtype = "float64" if output.dtype == tf.float64 else "float32"
        verdicts[kind] = try_out(_OfActivity(regularizer, dtype), output, output)
    return verdicts[kind]


def _share_of_rows(output: tf.Tensor, dtype: Any) -> tf.Tensor:
    """The rows of an output, as a part of those that all replicas have."""
    rows = this_step().share.of_samples(_rows_of(output, dtype))
    return ops.divide_no_nan(rows, sum_over_replicas(rows))


def _rows_of(output: tf.Tensor, dtype: Any) -> tf.Tensor:
    return ops.cast(ops.shape(output)[0], dtype)
