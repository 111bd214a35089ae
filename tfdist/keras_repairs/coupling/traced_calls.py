"""Which sizes of draws are that of the batch, in steps whose sizes are plain numbers.

In steps that run eagerly, or are traced for one size of batch, a size does not tell where it comes from. There a call
of the user's code is traced once more, for a batch of any size, which computes nothing. A draw of the trace and one of
the call are the same that are the k-th in the same place: in the call itself, in a turn of a loop, in a branch.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.replica_step import KnownUpdate, ReplicaStep, alone, current_step
from tfdist.keras_repairs.coupling import collected_losses
from tfdist.keras_repairs.coupling.output_rows import traced_outputs
from tfdist.keras_repairs.coupling.trials.made_up_inputs import is_of_samples
from tfdist.keras_repairs.coupling.trials.ways_of_calling import way_of_calling
from tfdist.runtime import random_state

Function = Callable[..., Any]


@dataclass(frozen=True)
class TracedDraw:
    """What a trace has shown of a draw.

    Attributes:
        sizes: Those of the draw; None where they are not known in a batch of any size.
        axis: Which of them is that of the batch; None where none is.
    """

    sizes: tuple[int | None, ...]
    axis: int | None

    def is_of(self, sizes: Sequence[Any]) -> bool:
        """Whether a draw with these sizes may be this one."""
        return len(sizes) == len(self.sizes) and all(
            expected in (None, size) for expected, size in zip(self.sizes, sizes, strict=True)
        )


Path = tuple[Any, ...]
Draws = Mapping[Path, TracedDraw | tuple[bool, ...] | KnownUpdate]
"""The draws of a call, what it gathers, see `known_rows`, and the updates of metrics in it."""
Trace = Callable[[], Draws | None]


class _Place:
    """Where in a call the code stands that runs now, and what it has done there.

    Args:
        path: The loops and branches around it.
    """

    def __init__(self, path: Path = ()) -> None:
        self._path = path
        self._done: dict[str, int] = {}

    def next(self, kind: str) -> Path:
        """The path of the next draw, loop or branch."""
        done = self._done.get(kind, 0)
        self._done[kind] = done + 1
        return (*self._path, kind, done)

_TRACES: AttachedValue[dict[str, Draws | None]] = AttachedValue("traced_draws")
"""What traces of a layer have shown, by the way in which it was called; None where it cannot be traced."""

_call: contextvars.ContextVar[Trace | None] = contextvars.ContextVar("tfdist_call_that_draws", default=None)
_place: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("tfdist_place_in_call", default=None)
_noted: contextvars.ContextVar[dict[Path, Any] | None] = contextvars.ContextVar("tfdist_noted_draws", default=None)


def call(original: Function) -> Function:
    """Repairs `Layer.__call__`: what the user's layers and models draw is found out by a trace, where it matters."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is None or step.static_rows is None or step.compiles or _call.get() or not _is_users(self):
            return original(self, *args, **kwargs)

        def trace() -> Draws | None:
            traces = _TRACES.get_or_make(self, dict)
            way = way_of_calling(self, args, kwargs, trains=bool(kwargs.get("training")))
            if way not in traces:
                traces[way] = _draws_of(lambda given: original(self, *given[0], **given[1]), (args, kwargs))
            return traces[way]

        with setting(_call, trace), setting(_place, _Place()):
            return original(self, *args, **kwargs)

    return repaired


def traced_draw(sizes: Sequence[Any], step: ReplicaStep) -> TracedDraw | None:
    """What a trace has shown of the next draw of the call that runs; None where it has shown nothing."""
    trace, place = _call.get(), _place.get()
    if trace is None or place is None or step.static_rows is None:
        return None
    path, draws = place.next("draw"), trace()
    draw = None if draws is None else draws.get(path)
    return draw if isinstance(draw, TracedDraw) and draw.is_of(sizes) else None


def known_rows(values: Any, step: ReplicaStep) -> tuple[bool, ...] | None:
    """Which leaves have the samples as their first dimension, of what is gathered next: as a trace has shown it of the
    call that runs, or a trial of the step; None where that is not known, or sizes tell.
    """
    trace, place, leaves = _call.get(), _place.get(), tf.nest.flatten(values)
    if step.static_rows is None:
        return None
    known: Any = None
    if trace is not None and place is not None:
        path, found = place.next("gathering"), trace()
        known = None if found is None else found.get(path)
    elif len(step.gathered) < len(step.known_gathered):
        known = step.known_gathered[len(step.gathered)]
    return known if known is not None and len(known) == len(leaves) and any(known) else None


def note_rows(values: Any) -> None:
    """Notes what is gathered in the code that is traced."""
    noted, place = _noted.get(), _place.get()
    assert noted is not None and place is not None, "nothing is traced"
    noted[place.next("gathering")] = tuple(has_rows(leaf) and leaf.shape[0] is None for leaf in tf.nest.flatten(values))


def known_update(metric: Any) -> KnownUpdate | None:
    """What a trace has shown of the next update of a mean or a sum in the call that runs."""
    trace, place = _call.get(), _place.get()
    if trace is None or place is None:
        return None
    path, found = place.next(_update_of(metric)), trace()
    known: Any = None if found is None else found.get(path)
    return known


def note_update(metric: Any, update: KnownUpdate) -> None:
    """Notes an update of a mean or a sum in the code that is traced."""
    noted, place = _noted.get(), _place.get()
    assert noted is not None and place is not None, "nothing is traced"
    noted[place.next(_update_of(metric))] = update


def _update_of(metric: Any) -> str:
    return f"update {id(metric)}"


def parts_of_call(kind: str) -> Callable[[Any], contextlib.AbstractContextManager[None]]:
    """For a loop or a branch that begins now: marks the code of each of its parts, of which any may run, or again."""
    place = _place.get()
    if place is None:
        return lambda part: contextlib.nullcontext()
    path = place.next(kind)
    return lambda part: setting(_place, _Place((*path, part)))


def is_noting() -> bool:
    """Whether the code that runs is traced for its draws."""
    return _noted.get() is not None


def note(sizes: Sequence[Any], axis: int | None) -> None:
    """Notes a draw of the code that is traced."""
    noted, place = _noted.get(), _place.get()
    assert noted is not None and place is not None, "nothing is traced"
    noted[place.next("draw")] = TracedDraw(tuple(size if isinstance(size, int) else None for size in sizes), axis)


def _is_users(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Lambda) or not type(layer).__module__.startswith(("keras.src.", "tfdist."))


def _draws_of(call: Callable[[Any], Any], values: Any) -> Draws | None:
    noted: dict[Path, Any] = {}
    leaves = tf.nest.flatten(values)
    are_rows = [isinstance(leaf, tf.Tensor | tf.RaggedTensor) and is_of_samples(leaf) for leaf in leaves]
    with alone(), random_state.kept(), collected_losses.collecting(), setting(_noted, noted), setting(_place, _Place()):
        outputs = traced_outputs(call, values, are_rows)
    return None if outputs is None else noted
