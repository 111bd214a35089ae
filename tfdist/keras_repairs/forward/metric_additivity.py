"""Additivity of the user's metrics: tried on made-up values, cut in two as replicas would, does the state add up?

A metric may keep values a sample, or a scalar a batch: a sum over the batch, which adds up as it is, or a mean over it,
which counts by the replica's samples. What adds up in neither way, or shows nothing, has to be gathered.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import alone, tried_out
from tfdist.keras_repairs.coupling.batch_branches import DecidedByBatch, finding_branches
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState
from tfdist.keras_repairs.coupling.trials.trial_notes import noting_writes
from tfdist.keras_repairs.forward.metric_draws import WEIGHT, CannotBeDrawn, Draw, Drawer
from tfdist.keras_repairs.forward.metric_scope import METRIC_SCOPE, TrialPart
from tfdist.text import safe_str

_TOLERANCE = 1e-4
"""Relative, above what float32 rounds; coarser predictions have a coarser one."""


class Merge(enum.Enum):
    """The way in which the state of a metric on one device follows from the replicas' states."""

    SUMS = "added up; scalars a batch are sums over its samples"
    MEANS = "added up; scalars a batch are means over its samples"
    GATHERED = "not at all: each replica needs the rows of all"


@dataclass(frozen=True)
class Verdict:
    """The result of a trial.

    Attributes:
        merge: How the replicas' states are to be merged.
        has_vectors: Whether the metric takes means of vectors that are not one value a sample.
        is_masked: Whether it was tried out with masks.
        reason: Why it has to be gathered, else empty.
    """

    merge: Merge
    has_vectors: bool = False
    is_masked: bool = False
    reason: str = ""


def try_out(metric: keras.metrics.Metric, args: Sequence[Any], kwargs: dict[str, Any]) -> Verdict:
    """Tries whether the state after some samples is the sum of the states after two parts of them.

    And whether the state after the second part, updated from that after the first, is; and whether no sample adds
    nothing. With weights and without, where the metric takes them.

    Args:
        metric: A metric whose variables have been made. Neither they nor its other attributes change.
        args: The arguments of one call of `update_state`, of which only shapes and dtypes count.
        kwargs: Likewise.
    """
    update = functools.partial(type(metric).update_state, metric)
    # Tried as on one replica, apart from the step that is being traced.
    with tf.init_scope(), alone(), tried_out(), KeptState(metric).restored(), noting_writes() as writes:
        try:
            signature = inspect.signature(update)
            trial = _Trial(metric, Drawer(signature.bind(*args, **kwargs)))
            verdict = trial.verdict(takes_weights=WEIGHT in signature.parameters)
        except (CannotBeDrawn, TypeError) as error:
            return Verdict(Merge.GATHERED, reason=f"could not be tried out on made-up values: {error}")
    if writes and verdict.merge is not Merge.GATHERED:
        return Verdict(Merge.GATHERED, reason=f"writes by {writes[0].what}")
    return verdict


@dataclass
class _Trial:
    """The evidence so far.

    Attributes:
        metric: The metric.
        drawer: Makes up its arguments.
        possible: What each draw so far allows.
        moved: Places of the variables that became other than zero.
        has_scalars: Whether the metric took the mean or the sum of something that is not one value a sample.
        has_vectors: Whether that was a vector.
    """

    metric: keras.metrics.Metric
    drawer: Drawer
    possible: tuple[Merge, ...] = (Merge.SUMS, Merge.MEANS)
    moved: set[int] = field(default_factory=set)
    has_scalars: bool = False
    has_vectors: bool = False

    def verdict(self, *, takes_weights: bool) -> Verdict:
        given = self.drawer.is_weighted
        if any(value.any() for value in _values(self.metric.stateless_reset_state())):
            return Verdict(Merge.GATHERED, reason="begins with values that are not zero")
        error = self._look_at(weighted=given)
        if self.possible and takes_weights:
            self._look_at(weighted=not given)
        if not self.possible:
            return Verdict(Merge.GATHERED, reason="is no sum over samples")
        if len(self.moved) < len(self.metric.variables):
            why = f" ({type(error).__name__}: {safe_str(error)})" if error is not None else ""
            return Verdict(Merge.GATHERED, reason=f"showed nothing on made-up values{why}")
        try:
            adds_nothing = self._adds_nothing_for_no_sample(weighted=given)
        except DecidedByBatch:
            return Verdict(Merge.GATHERED, reason="takes a branch (tf.cond) by the values of the batch")
        if not adds_nothing:
            return Verdict(Merge.GATHERED, reason="is no number, or fails, where a replica has no sample")
        return Verdict(self.possible[0], has_vectors=self.has_vectors, is_masked=self.drawer.is_masked)

    def _look_at(self, *, weighted: bool) -> Exception | None:
        """Looks at every draw; returns the last error that the metric has raised at one, if any."""
        failed: Exception | None = None
        for draw in self.drawer.draws(weighted=weighted):
            try:
                self._look_at_draw(draw)
            except Exception as error:  # The user's code, on values that it may not be made for.
                failed = failed if draw.is_odd else error
            if not self.possible:
                break
        return failed

    def _look_at_draw(self, draw: Draw) -> None:
        self.possible = tuple(
            merge
            for merge in self.possible
            # Where there is no scalar they are the same.
            if (merge is Merge.MEANS and self.possible[0] is not merge and not self.has_scalars)
            or self._adds_up(draw, merge)
        )

    def _adds_up(self, draw: Draw, merge: Merge) -> bool:
        samples = sum(draw.sizes)
        parts = [TrialPart(n, n / samples if merge is Merge.MEANS else None) for n in (samples, *draw.sizes)]
        whole = self._updated(self._zero(), draw.whole, parts[0])
        self.has_scalars |= parts[0].has_scalars
        self.has_vectors |= parts[0].has_vectors
        if not all(np.isfinite(value).all() for value in _values(whole)):
            # A logarithm of a negative number, say.
            return True
        first = self._updated(self._zero(), draw.parts[0], parts[1])
        second = self._updated(self._zero(), draw.parts[1], parts[2])
        both = self._updated(first, draw.parts[1], parts[2])
        self.moved |= {place for place, value in enumerate(_values(whole)) if value.any()}
        tolerance = max(_TOLERANCE, 10 * self.drawer.rounding)
        return all(
            _is_close(one, a + b, tolerance) and _is_close(one, ab, tolerance)
            for one, a, b, ab in zip(*map(_values, (whole, first, second, both)), strict=True)
        )

    def _adds_nothing_for_no_sample(self, *, weighted: bool) -> bool:
        """Returns whether a replica without a sample adds nothing; in a graph, where sizes are not known.

        Raises:
            DecidedByBatch: The metric takes a branch by the values of the batch.
        """
        whole = next(self.drawer.draws(weighted=weighted)).whole
        leaves = tf.nest.flatten(dict(whole.arguments))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor)]

        def updated(*rows: tf.Tensor) -> list[Any]:
            given = dict(zip(places, rows, strict=True))
            for place, tensor in given.items():
                if (mask := backend.get_keras_mask(leaves[place])) is not None:
                    backend.set_keras_mask(tensor, mask[:0])
            arguments = self.drawer.like(whole, [given.get(place, leaf) for place, leaf in enumerate(leaves)])
            share = 0.0 if self.possible[0] is Merge.MEANS else None
            return finding_branches(lambda: self._updated(self._zero(), arguments, TrialPart(0, share)))

        specs = [tf.TensorSpec([None, *leaves[place].shape[1:]], leaves[place].dtype) for place in places]
        compiled = tf.function(updated, input_signature=specs, autograph=False)
        try:
            state = compiled(*(leaves[place][:0] for place in places))
        except DecidedByBatch:
            raise
        except Exception:  # The user's code.
            return False
        return not any(value.any() for value in _values(state))

    def _updated(self, state: Sequence[Any], arguments: inspect.BoundArguments, part: TrialPart) -> list[Any]:
        with changing(METRIC_SCOPE, part=part):
            return list(self.metric.stateless_update_state(list(state), *arguments.args, **arguments.kwargs))

    def _zero(self) -> list[tf.Tensor]:
        return [tf.zeros(variable.shape, variable.dtype) for variable in self.metric.variables]


def _values(state: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(value, np.float64) for value in state]


def _is_close(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance * max(np.abs(one).max(initial=0.0), 1e-30)))
