"""The facts on the running call of the user's code, and the notes made where it is traced or runs on all rows."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.step_records import KnownUpdate


@dataclass(frozen=True)
class TracedDraw:
    """The facts that a trace has shown of a draw.

    Attributes:
        sizes: Those of the draw; None where they are not known in a batch of any size.
        axis: Which of them is that of the batch; None where none is.
    """

    sizes: tuple[int | None, ...]
    axis: int | None

    def is_of(self, sizes: Sequence[Any]) -> bool:
        """Returns whether a draw with these sizes may be this one."""
        return len(sizes) == len(self.sizes) and all(
            expected in (None, size) for expected, size in zip(self.sizes, sizes, strict=True)
        )


Losses = dict[int, list[tf.Tensor]]
"""Terms of `add_loss` by the id of the layer that has added them."""

Path = tuple[Any, ...]
Draws = Mapping[Path, TracedDraw | tuple[bool, ...] | KnownUpdate]
"""The draws of a call, what it gathers, see `known_rows`, and the updates of metrics in it."""
Trace = Callable[[], Draws | None]


class Place:
    """The place in a call at which the code that runs now stands, and what it has done there.

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


@dataclass(frozen=True)
class CallScope:
    """The call that runs.

    Attributes:
        trace: Gives what a trace of it has shown; None outside of calls of which one is asked for.
        place: Where in the call the code stands.
        noted: Where the code notes what it does, which is traced for that.
        losses: Where what layers add goes to, which run on all rows or are tried out; None where a step has it.
        finds_branches_for: The notes of the step in whose code branches are looked for; see `batch_branches`.
        loops: Those around the code in which they are.
        runs_eagerly: Whether the step that runs, or for which something is tried out, runs eagerly.
    """

    trace: Trace | None = None
    place: Place | None = None
    noted: dict[Path, Any] | None = None
    losses: Losses | None = None
    finds_branches_for: object = None
    loops: Any = None
    runs_eagerly: bool = False


_OUTSIDE = CallScope()

CALL_SCOPE: contextvars.ContextVar[CallScope] = contextvars.ContextVar("tfdist_call_scope", default=_OUTSIDE)


_IS_MEAN: AttachedValue[bool] = AttachedValue("is_mean")


@contextlib.contextmanager
def collecting() -> Iterator[Losses]:
    """Collects what the layers called inside add."""
    losses: Losses = {}
    with changing(CALL_SCOPE, losses=losses):
        yield losses


def collected() -> Losses | None:
    """Returns where losses are collected now; None where a step has them."""
    return CALL_SCOPE.get().losses


def marked_as_mean(term: tf.Tensor) -> tf.Tensor:
    """`term`, a scalar, which is known to be a mean over samples."""
    _IS_MEAN.set(term, True)
    return term


def is_mean(term: Any) -> bool:
    """Returns whether a term is known to be a mean over samples."""
    return bool(_IS_MEAN.get(term))
