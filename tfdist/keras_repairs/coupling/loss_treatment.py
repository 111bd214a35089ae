"""Decides how replicas share out a loss: as values of single samples, a mean or a sum; or else gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.losses.losses import LossFunctionWrapper

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.loss_scope import Kind, Treatment
from tfdist.keras_repairs.base.replica_step import current_step, is_one_of_several, replica_count, sum_over_replicas
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.keras_repairs.coupling.batch_branches import WHICH_BRANCH, takes_branches
from tfdist.keras_repairs.coupling.declarations import Declared, DeclaredLoss, declared_of
from tfdist.keras_repairs.coupling.trials.loss_trial import Verdict, try_out
from tfdist.keras_repairs.distillation.soft_targets import SoftTargets
from tfdist.keras_repairs.model_checks.refusals import reduces_itself
from tfdist.runtime.strategy_settings import settings_of

_RANKING = (keras.losses.circle,)
"""Functions that compare the rows of a batch with one another."""

_RATIOS = (keras.losses.dice, keras.losses.tversky)
"""Functions that divide sums over `axis`, by default over everything; the others' is by default the last."""


def couples_rows(loss: Any, y_pred: Any) -> bool:
    """Returns whether `loss` is one of Keras's that takes a sample's value by the other samples of its batch.

    Besides those that always do, it is any whose axis is that of the samples, as the last one is of predictions with no
    other.

    Args:
        loss: A loss object, Keras's or not.
        y_pred: What it is called with: a tensor or a structure of tensors.
    """
    if getattr(type(loss), "call", None) is not LossFunctionWrapper.call:
        return False
    if loss.fn in _RANKING:
        return True
    if not getattr(loss.fn, "__module__", "").startswith("keras.src.losses."):
        return False
    axis = loss._fn_kwargs.get("axis", None if loss.fn in _RATIOS else -1)
    ranks = [len(tensor.shape) for tensor in keras.tree.flatten(y_pred)]
    return axis is None or any(one in (0, -rank) for one in keras.tree.flatten(axis) for rank in ranks)


Function = Callable[..., Any]


def convert_binary_labels(original: Function) -> Function:
    """Repairs `keras.src.losses.losses.convert_binary_labels_to_hinge`: a replica asks the labels of all replicas.

    One that holds no other labels than 0 and 1, of some that others hold, would make -1 of its zeros.
    """

    def repaired(y_true: Any) -> tf.Tensor:
        if not is_one_of_several():
            return original(y_true)
        labels = tf.convert_to_tensor(y_true)
        others = tf.math.count_nonzero((labels != 0) & (labels != 1), dtype=tf.int32)
        step = current_step()
        # The row of a replica without samples has a label, too, which counts nowhere.
        others = others if step is None else step.share.of_samples(others)
        return tf.where(sum_over_replicas(others) == 0, 2 * labels - 1, labels)

    return repaired


_VERDICTS: AttachedValue[dict[str, Verdict]] = AttachedValue("loss_verdicts")
"""The verdicts of trials of a loss, by the shapes and dtypes that it was called with."""


_GATHERED = Treatment(gathers=True)
_DECLARED = {
    Declared.GATHERED: _GATHERED,
    Declared.AVERAGED: Treatment(),
    Declared.SUMMED: Treatment(kind=Kind.SUM),
}


def treatment_of(loss: keras.losses.Loss, y_true: Any, y_pred: Any) -> Treatment:
    """Returns how `loss` is to be shared out, called with these targets and predictions in the context of a replica.

    The user's losses are tried out when they are first called with tensors of a kind.

    Args:
        loss: A loss object.
        y_true: A tensor or a structure of tensors. One without dimensions is the same for all samples.
        y_pred: Likewise.

    Raises:
        UnsupportedError: It has to be gathered, which nobody has asked for, in a loop that is written by hand.
    """
    declared = declared_of(loss)
    if declared is not None:
        return _DECLARED[declared]
    if is_of_keras(loss):
        return _gathered(loss, _KERAS) if couples_rows(loss, y_pred) else Treatment(kind=Kind.ROWS, is_known=True)
    if not _gathers():
        warn_once(
            f"gather: off. The loss {loss.name!r} is not tried out: where it is no value a sample it is averaged over "
            "the replicas, by their samples."
        )
        return Treatment()
    verdict = _verdict(loss, y_true, y_pred)
    return _gathered(loss, verdict.reason) if verdict.kind is None else Treatment(kind=verdict.kind, is_known=True)


_HIDDEN = "it defines __call__() itself, so that nobody sees what it divides by"
_KERAS = "it takes a sample's value by the other samples of its batch"


def get_loss(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs the `get_loss` of `compile`: a loss that reduces its values itself is gathered."""

    def repaired(identifier: Any, y_true: Any, y_pred: Any) -> Any:
        loss = original(identifier, y_true, y_pred)
        takes_part = isinstance(loss, keras.losses.Loss) and not isinstance(loss, DeclaredLoss)
        if not takes_part or not reduces_itself(loss) or replica_count() == 1 or not _gathers():
            return loss
        say_once(f"{_line(loss, _HIDDEN)}.")
        return DeclaredLoss(loss, Declared.GATHERED)

    return repaired


def is_of_keras(loss: Any) -> bool:
    """Returns whether a loss and the function that it calls are Keras's, or it is that of a distillation, likewise
    known."""
    if isinstance(loss, SoftTargets):
        return True
    parts = [type(loss), getattr(loss, "fn", type(loss))]
    return all(getattr(part, "__module__", "").startswith("keras.src.") for part in parts)


def _gathers() -> bool:
    return settings_of(tf.distribute.get_strategy()).gather


def _gathered(loss: keras.losses.Loss, reason: str) -> Treatment:
    if current_step() is None:
        raise UnsupportedError(
            f"The loss {loss.name!r} is called in a loop of your own on several replicas, and {reason}: each replica "
            "would take it of its own samples alone. Call tfdist.gathered(loss) in its place, which takes it of the "
            "samples of all replicas and gives each replica its part of the sum over them; or tfdist.averaged(loss) or "
            "tfdist.summed(loss) where it is a mean or a sum over the samples."
        )
    if not _gathers():
        warn_once(
            f"gather: off. The loss {loss.name!r} is taken of each replica's own samples, and averaged. N replicas do "
            "not give the numbers of one."
        )
        return Treatment()
    if reason is not _KERAS:
        say_once(
            f"{_line(loss, reason)}; or with tfdist.averaged(loss) or tfdist.summed(loss) that it is a mean or sum."
        )
    return _GATHERED


def _line(loss: keras.losses.Loss, reason: str) -> str:
    return (
        f"the loss {loss.name!r} is taken of the samples of all replicas, gathered in each step: {reason}. Say so "
        "with tfdist.gathered(loss)"
    )


_BRANCHES = Verdict(None, f"{WHICH_BRANCH} depends on the samples of the batch")


def note_branch(loss: keras.losses.Loss, y_true: Any, y_pred: Any) -> None:
    """Notes of a loss that it takes a branch by the values of its batch; the next trace gathers it."""
    _VERDICTS.get_or_make(loss, dict)[_kinds_of(y_true, y_pred)] = _BRANCHES


def _kinds_of(y_true: Any, y_pred: Any) -> str:
    return str(keras.tree.map_structure(_kind_of, (y_true, y_pred)))


def _kind_of(tensor: Any) -> tuple[Any, ...]:
    return (tensor.shape[1:], tensor.dtype) if tensor.shape.rank else (tensor.dtype, tf.get_static_value(tensor))


def _verdict(loss: keras.losses.Loss, y_true: Any, y_pred: Any) -> Verdict:
    verdicts = _VERDICTS.get_or_make(loss, dict)
    kinds = _kinds_of(y_true, y_pred)
    if kinds not in verdicts:
        verdict = try_out(loss, y_true, y_pred)
        is_branching = verdict.kind is not None and takes_branches(loss.call, (y_true, y_pred), {})
        verdicts[kinds] = _BRANCHES if is_branching else verdict
    return verdicts[kinds]
