"""Which sizes of draws are that of the batch, in steps whose sizes are plain numbers.

In steps that run eagerly, or are traced for one size of batch, a size does not tell where it comes from. There a call
of the user's code is traced once more, for a batch of any size, which computes nothing: the k-th draw of the trace is
the k-th of the call.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.replica_step import ReplicaStep, alone, current_step
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


@dataclass
class _Call:
    """A call of the user's code, and how many draws it has made."""

    trace: Callable[[], tuple[TracedDraw, ...] | None]
    done: int = 0


Draws = tuple[TracedDraw, ...]

_TRACES: AttachedValue[dict[str, Draws | None]] = AttachedValue("traced_draws")
"""What traces of a layer have shown, by the way in which it was called; None where it cannot be traced."""

_call: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("tfdist_call_that_draws", default=None)
_noted: contextvars.ContextVar[list[TracedDraw] | None] = contextvars.ContextVar("tfdist_noted_draws", default=None)


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

        with setting(_call, _Call(trace)):
            return original(self, *args, **kwargs)

    return repaired


def traced_draw(sizes: Sequence[Any], step: ReplicaStep) -> TracedDraw | None:
    """What a trace has shown of the next draw of the call that runs; None where it has shown nothing."""
    running = _call.get()
    if running is None or step.static_rows is None:
        return None
    place, running.done = running.done, running.done + 1
    draws = running.trace()
    if draws is None or place >= len(draws) or not draws[place].is_of(sizes):
        return None
    return draws[place]


def is_noting() -> bool:
    """Whether the code that runs is traced for its draws."""
    return _noted.get() is not None


def note(sizes: Sequence[Any], axis: int | None) -> None:
    """Notes a draw of the code that is traced."""
    noted = _noted.get()
    assert noted is not None, "nothing is traced"
    noted.append(TracedDraw(tuple(size if isinstance(size, int) else None for size in sizes), axis))


def _is_users(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Lambda) or not type(layer).__module__.startswith(("keras.src.", "tfdist."))


def _draws_of(call: Callable[[Any], Any], values: Any) -> Draws | None:
    noted: list[TracedDraw] = []
    leaves = tf.nest.flatten(values)
    are_rows = [isinstance(leaf, tf.Tensor | tf.RaggedTensor) and is_of_samples(leaf) for leaf in leaves]
    with alone(), random_state.kept(), collected_losses.collecting(), setting(_noted, noted):
        outputs = traced_outputs(call, values, are_rows)
    return None if outputs is None else tuple(noted)
