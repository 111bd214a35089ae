"""Finds out which sizes of draws are that of the batch, in steps whose sizes are plain numbers.

In steps that run eagerly, or are traced for one size of batch, a size does not tell where it comes from. There a call
of the user's code is traced once more, for a batch of any size, which computes nothing. A draw of the trace and one of
the call are the same that are the k-th in the same place: in the call itself, in a turn of a loop, in a branch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, alone, current_step
from tfdist.keras_repairs.base.step_records import KnownUpdate
from tfdist.keras_repairs.coupling.call_scope import CALL_SCOPE, Draws, Path, Place, TracedDraw
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.shown_of_layers import shown_of
from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples, way_of_calling
from tfdist.runtime import random_state

Function = Callable[..., Any]


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: what the user's layers and models draw is found out by a trace, where it matters."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is None or step.share.static_rows is None or step.trace.compiles:
            return original(self, *args, **kwargs)
        if CALL_SCOPE.get().trace or not _is_users(self):
            return original(self, *args, **kwargs)
        # A call that makes weights draws these, too.
        weights = len(self.weights)

        def trace() -> Draws | None:
            traces = shown_of(self).draws
            way = weights, way_of_calling(self, args, kwargs, trains=bool(kwargs.get("training")))
            if way not in traces:
                traces[way] = _draws_of(lambda given: original(self, *given[0], **given[1]), (args, kwargs))
            return traces[way]

        with changing(CALL_SCOPE, trace=trace, place=Place()):
            return original(self, *args, **kwargs)

    return repaired


def traced_draw(sizes: Sequence[Any], step: ReplicaStep) -> TracedDraw | None:
    """Returns what a trace has shown of the next draw of the call that runs; None where it has shown nothing."""
    scope = CALL_SCOPE.get()
    if scope.trace is None or scope.place is None or step.share.static_rows is None:
        return None
    path, draws = scope.place.next("draw"), scope.trace()
    draw = None if draws is None else draws.get(path)
    return draw if isinstance(draw, TracedDraw) and draw.is_of(sizes) else None


def known_rows(values: Any, step: ReplicaStep) -> tuple[bool, ...] | None:
    """Returns which leaves have the samples as their first dimension, of what is gathered next: as a trace has shown it
    of the call that runs, or a trial of the step; None where that is not known, or sizes tell.
    """
    scope, leaves = CALL_SCOPE.get(), tf.nest.flatten(values)
    if step.share.static_rows is None:
        return None
    known: Any = None
    if scope.trace is not None and scope.place is not None:
        path, found = scope.place.next("gathering"), scope.trace()
        known = None if found is None else found.get(path)
    elif len(step.noted.gathered) < len(step.known.gathered):
        known = step.known.gathered[len(step.noted.gathered)]
    return known if known is not None and len(known) == len(leaves) and any(known) else None


def note_rows(values: Any) -> None:
    """Notes what is gathered in the code that is traced."""
    _note("gathering", tuple(has_rows(leaf) and leaf.shape[0] is None for leaf in tf.nest.flatten(values)))


def known_update(metric: Any) -> KnownUpdate | None:
    """Returns what a trace has shown of the next update of a mean or a sum in the call that runs."""
    scope = CALL_SCOPE.get()
    if scope.trace is None or scope.place is None:
        return None
    path, found = scope.place.next(_update_of(metric)), scope.trace()
    known: Any = None if found is None else found.get(path)
    return known


def note_update(metric: Any, update: KnownUpdate) -> None:
    """Notes an update of a mean or a sum in the code that is traced."""
    _note(_update_of(metric), update)


def _update_of(metric: Any) -> str:
    return f"update {id(metric)}"


def parts_of_call(kind: str) -> Callable[[Any], contextlib.AbstractContextManager[None]]:
    """For a loop or a branch that begins now: marks the code of each of its parts, of which any may run, or again."""
    place = CALL_SCOPE.get().place
    if place is None:
        return lambda part: contextlib.nullcontext()
    path = place.next(kind)
    return lambda part: changing(CALL_SCOPE, place=Place((*path, part)))


def is_noting() -> bool:
    """Returns whether the code that runs is traced for its draws."""
    return CALL_SCOPE.get().noted is not None


def note(sizes: Sequence[Any], axis: int | None) -> None:
    """Notes a draw of the code that is traced."""
    _note("draw", TracedDraw(tuple(size if isinstance(size, int) else None for size in sizes), axis))


def _note(kind: str, what: Any) -> None:
    scope = CALL_SCOPE.get()
    assert scope.noted is not None and scope.place is not None, "nothing is traced"
    scope.noted[scope.place.next(kind)] = what


def _is_users(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Lambda) or not type(layer).__module__.startswith(("keras.src.", "tfdist."))


def _draws_of(call: Callable[[Any], Any], values: Any) -> Draws | None:
    noted: dict[Path, Any] = {}
    leaves = tf.nest.flatten(values)
    are_rows = [isinstance(leaf, tf.Tensor | tf.RaggedTensor) and is_of_samples(leaf) for leaf in leaves]
    with alone(), random_state.kept(), changing(CALL_SCOPE, noted=noted, place=Place(), losses={}):
        outputs = traced_outputs(call, values, are_rows)
    return None if outputs is None else noted
