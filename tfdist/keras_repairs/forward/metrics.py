"""Repairs of metrics: TensorFlow adds up the replicas' variables, which is right for sums over samples alone.

Keras's own metrics are such sums. Any other is tried out at its first update, see `metric_additivity`, wherever that
is: in `compile`, a layer, a step or a loop of the user's. What is no such sum, or cannot be tried out, is computed on
the rows of all replicas, see `global_batch_metrics`.
"""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from keras.src.backend.common import symbolic_scope

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, is_one_of_several, replica_count
from tfdist.keras_repairs.base.step_records import KnownUpdate
from tfdist.keras_repairs.coupling.batch_branches import looked_at_apart
from tfdist.keras_repairs.coupling.declarations import Declared, declared_of
from tfdist.keras_repairs.coupling.traced_calls import is_noting, known_update, note_update
from tfdist.keras_repairs.coupling.trials.likeness import likeness_of
from tfdist.keras_repairs.coupling.trials.steps.step_capture import capture_reading, without_readings
from tfdist.keras_repairs.forward.global_batch_metrics import has_full_state, keep_full_state, update_on_global_batch
from tfdist.keras_repairs.forward.metric_additivity import Merge, Verdict, try_out
from tfdist.keras_repairs.forward.metric_results import noted, updating
from tfdist.keras_repairs.forward.metric_scope import METRIC_SCOPE, is_written_down, likeness_of_arguments

Function = Callable[..., Any]

_log = logging.getLogger("tfdist")

_VERDICTS: AttachedValue[dict[Hashable, Verdict]] = AttachedValue("verdicts_of_metrics")
"""The verdicts of trials under a strategy, by what a metric computes by and what it is given."""


@dataclass(frozen=True)
class _Known:
    """The facts known of a metric.

    Attributes:
        verdict: What a trial has shown of it, or of one that it is part of; None before.
        is_in_use: Whether steps have been traced that leave its state to be added up.
    """

    verdict: Verdict | None = None
    is_in_use: bool = False


_NOTHING = _Known()

_KNOWN: AttachedValue[_Known] = AttachedValue("known_of_metric")


def of_scalar(original: Function) -> Function:
    """Repairs `Mean.update_state` and `Sum.update_state`: a scalar without a weight is one a global batch.

    On one replica Keras counts such a number, often the loss of a step, once a batch; here each replica has its own,
    and it counts by the replica's samples, unless a trial has shown that it is a sum over them. So does a vector whose
    size is not that of the batch: a mean for each class, say.
    """

    def repaired(self: Any, values: Any, sample_weight: Any = None) -> Any:
        counted = _as_counted(self, values, sample_weight)
        capture_reading(self, values, sample_weight, counted)
        return original(self, *counted)

    return repaired


def _as_counted(metric: Any, values: Any, sample_weight: Any) -> tuple[Any, Any]:
    """The values and weights with which a mean or a sum counts what a step gives it."""
    step, part = current_step(), METRIC_SCOPE.get().part
    shape: Any = getattr(values, "shape", ())
    known = None if step is None else step.note_update(metric) or known_update(metric)
    if step is None and is_noting():
        is_of_batch = len(shape) > 0 and shape[0] is not None
        note_update(metric, KnownUpdate(is_of_batch, has_same_weight=_is_written_down(sample_weight)))
    if part is not None:
        if part.takes_for_scalar(shape, is_function=isinstance(metric, keras.metrics.MeanMetricWrapper)):
            # In the trial a scalar counts by the share of its part, as it does below by that of the replica.
            values = values if part.samples else tf.zeros_like(values)
            sample_weight = part.share if sample_weight is None else sample_weight
        return values, sample_weight
    verdict = _known(metric).verdict
    if step is None or (len(shape) > 0 and not _is_of_batch(metric, shape, verdict, known, step)):
        return values, sample_weight
    values = tf.cast(values, metric.dtype)
    if sample_weight is None and (verdict is None or verdict.merge is Merge.MEANS):
        sample_weight = step.share.fraction(values.dtype)
    elif verdict is None and _is_same_everywhere(sample_weight, known, step):
        sample_weight = tf.cast(sample_weight, values.dtype) * step.share.fraction(values.dtype)
    return values, sample_weight


def _is_of_batch(
    metric: Any, shape: Any, verdict: Verdict | None, known: KnownUpdate | None, step: ReplicaStep
) -> bool:
    """Returns whether a vector is what a step has made of its batch, and not one value a sample.

    Raises:
        UnsupportedError: A metric of Keras's that has an axis has made it, along the samples.
    """
    if verdict is not None:
        return verdict.has_vectors
    if known is not None:
        return known.has_vector_of_batch
    rows = step.share.static_rows
    # Where sizes are known, there may be several values a sample: time steps, say.
    if shape[0] is None or (rows is not None and shape[0] % max(rows, 1) == 0):
        return False
    if isinstance(metric, keras.metrics.MeanMetricWrapper) and "axis" in metric._fn_kwargs:
        raise UnsupportedError(
            f"The metric {metric.name!r} ({type(metric).__qualname__}) takes {shape[0]} values over the samples of a "
            "batch, as of axis=0, rather than some of each sample. Put tfdist.gathered(metric) in its place, which "
            "takes them of the samples of all replicas."
        )
    return True


def _is_same_everywhere(weight: Any, known: KnownUpdate | None, step: ReplicaStep) -> bool:
    """Returns whether weights are numbers that a script has written down, rather than how many samples a replica
    has."""
    if known is not None:
        return known.has_same_weight
    if isinstance(weight, tf.Tensor) and np.array_equal(tf.get_static_value(weight), step.share.static_rows or -1):
        return False
    if step.share.static_rows is None and tf.is_symbolic_tensor(weight) and _is_number(weight):
        # How many samples there are is no number here: it is the rows of a table beside them, which Keras takes for the
        # samples of a batch where that table is the first of its tensors.
        return True
    return _is_written_down(weight) and not (isinstance(weight, int) and weight == step.share.static_rows)


def _is_number(weight: tf.Tensor) -> bool:
    """Returns whether the value of a tensor is known while it is traced: a constant, or a size out of a constant
    shape."""
    operation = weight.op
    source = operation.inputs[0] if operation.type == "StridedSlice" else weight
    return tf.get_static_value(source) is not None


def _is_written_down(weight: Any) -> bool:
    if isinstance(weight, tf.Tensor):
        return is_written_down(weight)
    return all(isinstance(leaf, int | float | np.number | np.ndarray) for leaf in tf.nest.flatten(weight))


def watch_updates(original: Function) -> Function:
    """Repairs `keras.metrics.Metric.__init__`: results are seen, and updates of metrics that are not Keras's."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        # On the object, whose class may have been made before tfdist; past Keras, which would track it.
        object.__setattr__(self, "result", types.MethodType(noted(type(self).result), self))
        update = updating(type(self).update_state)
        update = _watched(update) if _is_of_users(type(self)) else update
        object.__setattr__(self, "update_state", types.MethodType(update, self))

    return repaired


def _known(metric: Any) -> _Known:
    return _KNOWN.get(metric) or _NOTHING


def declare_gathered(metric: keras.metrics.Metric) -> Verdict:
    """Spares a metric the trial: it is updated with the rows of all replicas."""
    verdict = Verdict(Merge.GATHERED, reason="was declared to be no sum over samples")
    _attach(metric, verdict)
    return verdict


def _is_of_users(kind: type[keras.metrics.Metric]) -> bool:
    """Returns whether a class of metrics updates its state by code that is not Keras's."""
    if getattr(kind, "is_gathered", False):
        return False
    owner = next(cls for cls in kind.__mro__ if "update_state" in vars(cls))
    # The mean of a function: of the user's, or of one of Keras's losses over the batch.
    wraps = kind is keras.metrics.MeanMetricWrapper or (
        issubclass(kind, keras.metrics.MeanMetricWrapper) and not _is_of_keras(kind)
    )
    return wraps or not _is_of_keras(owner)


def _is_of_keras(kind: type) -> bool:
    return kind.__module__.startswith("keras.src.")


def _watched(update: Function) -> Function:
    @functools.wraps(update)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        scope = METRIC_SCOPE.get()
        if scope.is_known or scope.part is not None:
            return update(self, *args, **kwargs)
        # While Keras builds a model it calls everything once, for shapes, in a graph in which no replicas meet.
        is_building, is_replica = symbolic_scope.in_symbolic_scope(), is_one_of_several()
        with without_readings():
            if is_replica and not is_building:
                return _update_one_of_several(self, functools.partial(update, self), args, kwargs)
            with looked_at_apart():
                result = update(self, *args, **kwargs)
        # The time to decide, before variables have values, where no step decides it.
        if is_building and not is_replica and replica_count() > 1 and _known(self).verdict is None:
            _decide(self, args, kwargs, together=False)
        return result

    return watched


def _update_one_of_several(metric: Any, update: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    verdict = _known(metric).verdict
    if verdict is None or not _holds(verdict, (args, kwargs)):
        verdict = _decide(metric, args, kwargs, together=True)
    with changing(METRIC_SCOPE, is_known=True):
        if verdict.merge is Merge.GATHERED:
            keep_full_state(metric, together=True)
            return update_on_global_batch(metric, update, args, kwargs)
        _KNOWN.set(metric, replace(_known(metric), is_in_use=True))
        return update(*args, **kwargs)


def _holds(verdict: Verdict, arguments: Any) -> bool:
    """Returns whether a verdict holds for arguments that may have masks."""
    if verdict.merge is Merge.GATHERED or verdict.is_masked:
        return True
    return all(backend.get_keras_mask(leaf) is None for leaf in tf.nest.flatten(arguments))


def _decide(metric: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, together: bool) -> Verdict:
    """Tries a metric out, and says so where it is to be gathered; whether in a step, where all workers are together."""
    if declared_of(getattr(metric, "_fn", None)) is Declared.GATHERED:
        keep_full_state(metric, together=together)
        return declare_gathered(metric)
    if any(map(has_full_state, metric.variables)):
        verdict = Verdict(Merge.GATHERED, reason="keeps what is not added up, such as bools")
    else:
        verdict = _verdict_of_trial(metric, args, kwargs)
    is_hand_written = current_step() is None and not symbolic_scope.in_symbolic_scope()
    if verdict.merge is Merge.MEANS and is_hand_written:
        # A loop of the user's does not tell how many samples each replica has, by which its mean would count.
        verdict = Verdict(Merge.GATHERED, reason="keeps means over the samples of a batch")
    if verdict.merge is Merge.GATHERED:
        _log.info(
            "the metric %r (%s) %s: it is computed on the rows of all replicas",
            metric.name,
            type(metric).__qualname__,
            verdict.reason,
        )
        if _known(metric).is_in_use:
            raise UnsupportedError(
                f"The metric {metric.name!r} ({type(metric).__qualname__}) {verdict.reason} where predictions have a "
                "mask, and has been updated without one already. Put tfdist.gathered(metric) in its place."
            )
        keep_full_state(metric, together=together)
    _attach(metric, verdict)
    return verdict


def _verdict_of_trial(metric: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Verdict:
    """Returns what a trial shows of a metric, or has shown of another like it that was given the same arguments."""
    kind, given = likeness_of(metric), likeness_of_arguments(args, kwargs)
    if kind is None or given is None:
        return try_out(metric, args, kwargs)
    strategy = tf.distribute.get_strategy()
    verdicts = _VERDICTS.get(strategy)
    if verdicts is None:
        verdicts = {}
        _VERDICTS.set(strategy, verdicts)
    key = (kind, given, keras.config.floatx())
    if key not in verdicts:
        verdicts[key] = try_out(metric, args, kwargs)
    return verdicts[key]


def _attach(metric: keras.metrics.Metric, verdict: Verdict) -> None:
    """Attaches a verdict to a metric, and to those that it is made of."""
    _KNOWN.set(metric, replace(_known(metric), verdict=verdict))
    for part in metric._metrics:
        _attach(part, verdict)
