"""Loops of the user's own with `strategy.run`: says before a wrong step which gradients do not add up to one device's.

TensorFlow adds up the gradients of the replicas. Where each of them takes the mean over its samples, that is no mean
over those of the batch, and NaN where a replica has none. Where a replica clips its own, or compares its own samples
with one another, they add up to nothing that one device computes.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_step import current_step, is_tried_out
from tfdist.keras_repairs.base.warn_once import say_once, warn_once
from tfdist.keras_repairs.coupling.trials.steps.loop_trial import CannotBeTried, Finding, LoopTrial, LoopVerdict

Function = Callable[..., Any]

_SEEN: AttachedValue[dict[types.CodeType, _Seen]] = AttachedValue("seen_in_loops")
"""Records of what was seen of a function, by its code: with the model or the optimizer that it closes over."""

_SEEN_OF_MODULES: weakref.WeakKeyDictionary[types.CodeType, _Seen] = weakref.WeakKeyDictionary()
"""Likewise, of functions that close over none."""

_MOST_TRIALS = 3
"""A trial fails while variables are being made: in the first trace of a tf.function."""


@dataclass
class _Seen:
    """The record of what was seen of a function that loops run.

    Attributes:
        sizes: How many rows replicas of this worker were given; None where a trace was for any number.
        trials: How often it may still be tried out, where a trial fails.
        shown: For which kinds of pieces it was tried out: equal ones (True), or any.
    """

    sizes: set[int | None] = field(default_factory=set)
    trials: int = _MOST_TRIALS
    shown: set[bool] = field(default_factory=set)

    @property
    def are_equal(self) -> bool:
        """Whether all replicas have as many rows of any batch, as far as is known."""
        return None not in self.sizes and len(self.sizes) == 1

    @property
    def is_untried(self) -> bool:
        """Whether a trial may show what nobody knows yet: one with unequal pieces has shown all.

        An eager function may do more in Python each time than a trial can restore; one that is traced does so rarely.
        """
        if not self.sizes or self.trials == 0 or {self.are_equal, False} & self.shown:
            return False
        return not self.are_equal or not tf.executing_eagerly()


_EMPTY = types.CellType()

_OURS = ("tensorflow.", "keras.", "tfdist.")


def run(original: Function) -> Function:
    """Repairs `tf.distribute.Strategy.run`: a function of the user's that takes pieces of a batch is tried out once."""

    def repaired(self: Any, fn: Function, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        seen = _seen(fn)
        if not _is_users(self, fn) or seen is None or not _is_untried(self, seen, (args, kwargs)):
            return original(self, fn, args=args, kwargs=kwargs, options=options)
        trial = LoopTrial(fn)
        pieces = _pieces(self, (tuple(args), kwargs or {}))
        if trial.is_built:
            _try_out(self, fn, seen, trial, pieces)
            return original(self, fn, args=args, kwargs=kwargs, options=options)
        outputs = original(self, fn, args=args, kwargs=kwargs, options=options)
        # In a tf.function nothing of it has run yet.
        _try_out(self, fn, seen, LoopTrial(fn), pieces)
        return outputs

    return repaired


def _is_users(strategy: tf.distribute.Strategy, fn: Function) -> bool:
    if strategy.num_replicas_in_sync == 1 or current_step() is not None or is_tried_out():
        return False
    return not _module_of(fn).startswith(_OURS)


def _seen(fn: Function) -> _Seen | None:
    """Returns what was seen of a function, which may be made anew for each step; None of one that has no code of its
    own."""
    inner = getattr(fn, "python_function", fn)
    held: list[Any] = []
    while isinstance(inner, functools.partial):
        held.extend(inner.args)
        inner = inner.func
    if isinstance(inner, types.MethodType):
        record = _SEEN.get_or_make(inner.__self__, dict) if hasattr(inner.__self__, "__dict__") else {}
        return record.setdefault(inner.__func__.__code__, _Seen())
    if not isinstance(inner, types.FunctionType):
        return None
    held.extend(cell.cell_contents for cell in inner.__closure__ or () if cell != _EMPTY)
    owner = next((value for value in held if isinstance(value, keras.Layer | keras.optimizers.Optimizer)), None)
    if owner is None:
        return _SEEN_OF_MODULES.setdefault(inner.__code__, _Seen())
    return _SEEN.get_or_make(owner, dict).setdefault(inner.__code__, _Seen())


def _module_of(fn: Function) -> str:
    inner = getattr(fn, "python_function", fn)
    return str(getattr(inner, "__module__", type(inner).__module__))


def _is_untried(strategy: tf.distribute.Strategy, seen: _Seen, given: Any) -> bool:
    """Notes how many rows replicas get, and returns whether a function that gets them is to be tried out."""
    given_rows = (_with_rows(strategy, leaf) for leaf in tf.nest.flatten(given))
    pieces: list[tf.Tensor] = next(filter(None, given_rows), [])
    sizes = {piece.shape[0] for piece in pieces}
    # Batches of other sizes may divide as well: of several pieces that shows by itself.
    if len(pieces) == 1 or len(sizes) > 1 or None in sizes or not seen.sizes:
        seen.sizes |= sizes
    return seen.is_untried


def _with_rows(strategy: tf.distribute.Strategy, leaf: Any) -> list[tf.Tensor]:
    """Returns what the replicas of this worker are given for a tensor of their rows; nothing for another one."""
    return [piece for piece in _of_replicas(strategy, leaf) if isinstance(piece, tf.Tensor) and piece.shape.rank]


def _of_replicas(strategy: tf.distribute.Strategy, leaf: Any) -> Sequence[Any]:
    """Returns what the replicas of this worker are given for a leaf: of several, a plain tensor is the same for all."""
    is_alone = len(strategy.extended.worker_devices) == 1
    if not isinstance(leaf, tf.distribute.DistributedValues) and not (is_alone and isinstance(leaf, tf.Tensor)):
        return ()
    return strategy.experimental_local_results(leaf)


def _pieces(strategy: tf.distribute.Strategy, given: Any) -> Any:
    """Returns what the first replica of this worker is given, with any number of rows where it has its samples."""
    leaves = tf.nest.flatten(given)
    first = [next(iter(_of_replicas(strategy, leaf)), leaf) for leaf in leaves]
    pieces = next(filter(None, (_with_rows(strategy, leaf) for leaf in leaves)), [])
    rows = pieces[0].shape[0] if pieces else None
    with tf.Graph().as_default():
        made = [
            _of_any_size(piece, rows) if len(_of_replicas(strategy, leaf)) else piece
            for leaf, piece in zip(leaves, first, strict=True)
        ]
    return tf.nest.pack_sequence_as(given, made)


def _of_any_size(leaf: Any, rows: int | None) -> Any:
    if rows is None or not isinstance(leaf, tf.Tensor) or not leaf.shape.rank or leaf.shape[0] != rows:
        return leaf
    return tf.compat.v1.placeholder(leaf.dtype, [None, *leaf.shape[1:]])


def _try_out(strategy: tf.distribute.Strategy, fn: Function, seen: _Seen, trial: LoopTrial, pieces: Any) -> None:
    seen.trials -= 1
    args, kwargs = pieces
    name = getattr(getattr(fn, "python_function", fn), "__qualname__", "a function")
    try:
        found = trial.verdicts(args, kwargs, are_equal=seen.are_equal)
    except CannotBeTried as hindrance:
        if str(hindrance):
            say_once(f"strategy.run({name}) is not tried out, and what is wrong is not told: it changes {hindrance}.")
        return
    seen.shown.add(seen.are_equal)
    with strategy.scope():
        for verdict in found:
            _tell(name, verdict, are_equal=seen.are_equal)


def _tell(name: str, verdict: LoopVerdict, *, are_equal: bool) -> None:
    what = f"strategy.run({name}): the optimizer {verdict.optimizer!r}"
    if verdict.finding is Finding.CONSTANTS:
        say_once(f"{what} {_CONSTANTS}")
    elif verdict.finding is Finding.MEANS and are_equal:
        say_once(f"{what} {_PENALTIES_OF_AS_MANY if verdict.is_of_terms else _MEANS_OF_AS_MANY}")
    elif verdict.is_of_terms:
        warn_once(f"{what} {_PENALTIES}")
    else:
        warn_once(f"{what} {_MEANS if verdict.finding is Finding.MEANS else _OTHERS}")


_MEANS = (
    "gets the gradients of a mean over the samples of each replica. They are added up, so the numbers are not those of "
    "one device, nor those of a mean over the replicas where a batch does not divide; a replica without a sample has "
    "NaN. Expected the losses of a replica's samples, added up and divided by the samples of the global batch. Write "
    "loss = tf.nn.compute_average_loss(losses_of_samples) with one loss a sample, or a keras.losses.Loss, and "
    'strategy.reduce("SUM", losses, axis=None).'
)
_MEANS_OF_AS_MANY = (
    "gets the gradients of a mean over the samples of each replica. They are added up: that is right if the mean is "
    "divided by the number of replicas, and as many times too large if it is not. Read the number from "
    "strategy.num_replicas_in_sync inside of the function, or write loss = tf.nn.compute_average_loss("
    "losses_of_samples), and this message is gone."
)
_PENALTIES = (
    "gets the gradients of terms that layers have added (activity regularizers, add_loss) which do not add up to those "
    "of one device, so the numbers are not those of one device. Add tf.nn.scale_regularization_loss(tf.add_n("
    "model.losses)) to the loss. It shares out means over the rows. What a layer adds up over the rows belongs in each "
    "sample's loss, and what it computes of a mean takes the rows of all replicas: tfdist.gathered(function)(tensors)."
)
_PENALTIES_OF_AS_MANY = (
    "gets the gradients of the mean over each replica's rows that layers have added (activity regularizers, add_loss). "
    "They are added up: that is right if it is divided by the number of replicas, and as many times too large if it is "
    "not. Add tf.nn.scale_regularization_loss(tf.add_n(model.losses)) to the loss, and this message is gone."
)
_CONSTANTS = (
    "gets gradients from each replica that have a part which is the same for any samples: that of a penalty on "
    "weights, say, or of noise of a size that the function knows. They are added up: that is right if the part is "
    "divided by the number of replicas, and as many times too large if it is not. tf.nn.scale_regularization_loss "
    "divides penalties."
)
_OTHERS = (
    "gets gradients of the replicas that do not add up to the gradient of one device, so the numbers are not those of "
    "one device. Expected what each replica adds to the gradient of the global batch. A loss is "
    "tf.nn.compute_average_loss(losses_of_samples). To clip or normalize a gradient, reduce it first ('Clipping by "
    "hand' in docs/scripts.md). What compares or mixes samples, as a contrastive loss or mixup does, takes the rows "
    "of all replicas: tfdist.gathered(function)(tensors)."
)
