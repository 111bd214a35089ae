"""Tells a draw about the code that it is in, with code of Keras's, TensorFlow's or the user's in between.

A trial runs the same code on a batch and on slices of it, as replicas would. Which size of a draw is that of the batch
shows by itself: the one that differs.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.draw_slices.draw_slice import DrawSlice


@dataclass
class DrawLog:
    """The results of the draws of a trial on the whole batch, in their order.

    Attributes:
        draws: The numbers.
        has_several: Whether one of them had several rows to each of the batch, as far as was replayed.
    """

    draws: list[tf.Tensor] = field(default_factory=list)
    has_several: bool = False


@dataclass
class Replay:
    """The draws of a slice of a batch, taken from those of the whole; see `replaying_draws`."""

    log: DrawLog
    first: int
    rows: int
    total: int
    stacks: bool
    done: int = 0


@dataclass(frozen=True)
class Decision:
    """The facts that the function that calls an operation knows of its draw.

    Attributes:
        draw_slice: The replica's slice; None where the draw is the same on all replicas.
    """

    draw_slice: DrawSlice | None


@dataclass(frozen=True)
class DrawScope:
    """The code that draws.

    Attributes:
        decision: What is known of the draw by who calls its operation; None where the operation is to find it out.
        outside: Outside of steps, the slice that draws of its shape are of.
        decided_by: "loop" or "branch" inside of one that the batch decides, else empty.
        is_building: Whether models are built from shapes alone: no seed follows on another.
        recorded: Where draws are recorded, of code that is tried out on a whole batch.
        replayed: From where they are taken, of code that is tried out on a slice of it.
        of_python: Where draws from generators of NumPy's and Python's are noted, of code that is tried out.
    """

    decision: Decision | None = None
    outside: DrawSlice | None = None
    decided_by: str = ""
    is_building: bool = False
    recorded: DrawLog | None = None
    replayed: Replay | None = None
    of_python: list[str] | None = None


_OUTSIDE = DrawScope()

DRAW_SCOPE: contextvars.ContextVar[DrawScope] = contextvars.ContextVar("tfdist_draw_scope", default=_OUTSIDE)


def drawing_rows(draw_slice: DrawSlice) -> contextlib.AbstractContextManager[None]:
    """Outside of steps, draws inside of the shape that `draw_slice` is cut from are of that slice alone."""
    return changing(DRAW_SCOPE, outside=draw_slice)


def recording_draws(log: DrawLog) -> contextlib.AbstractContextManager[None]:
    """Records the draws of the code inside, which runs eagerly on a whole batch.

    It takes none from those of another trial within which it is tried out.
    """
    return changing(DRAW_SCOPE, recorded=log, replayed=None)


def ignoring_draws() -> contextlib.AbstractContextManager[None]:
    """Records nothing of the code inside, which does not run on the slices, and takes nothing of what is recorded."""
    return changing(DRAW_SCOPE, recorded=None, replayed=None)


def replaying_draws(
    log: DrawLog, first: int, rows: int, total: int, *, stacks: bool = False
) -> contextlib.AbstractContextManager[None]:
    """The draws of the code inside take their rows of those that were recorded.

    Args:
        log: The draws of the same code on the whole batch.
        first: The place of the first row of the slice that the code inside runs on.
        rows: The rows of the slice.
        total: The rows of the whole batch.
        stacks: Whether a draw of several times as many rows is of batches one after the other, and not of several rows
            to each of the batch.

    Raises:
        UnsupportedError: The code draws otherwise on a slice than on the whole batch. Raised inside.
    """
    return changing(DRAW_SCOPE, recorded=None, replayed=Replay(log, first, rows, total, stacks))


def replaces_draws() -> bool:
    """Returns whether a draw is to be recorded, or taken from what was: code is tried out eagerly."""
    scope = DRAW_SCOPE.get()
    return (scope.recorded is not None or scope.replayed is not None) and tf.executing_eagerly()


def record(draw: tf.Tensor) -> tf.Tensor:
    """Notes a draw where draws are recorded; returns it."""
    log = DRAW_SCOPE.get().recorded
    if log is not None:
        log.draws.append(draw)
    return draw


def replayed(sizes: Sequence[int]) -> tf.Tensor | None:
    """The next draw, of which the first sizes are `sizes`, where draws are replayed; else None."""
    replay = DRAW_SCOPE.get().replayed
    if replay is None:
        return None
    if replay.done == len(replay.log.draws):
        raise UnsupportedError("keras.random: more numbers are drawn for a part of a batch than for the whole batch.")
    whole = replay.log.draws[replay.done]
    replay.done += 1
    for axis, (size, of_whole) in enumerate(zip(sizes, whole.shape, strict=False)):
        if size == of_whole:
            continue
        multiple = of_whole // replay.total
        if of_whole % replay.total or size != multiple * replay.rows:
            raise UnsupportedError(
                f"keras.random: a draw has the shape {tuple(whole.shape)} for a batch of {replay.total} rows, and "
                f"{tuple(sizes)} for {replay.rows} of them. Expected a size of the batch, or a multiple of it."
            )
        replay.log.has_several |= multiple > 1
        if replay.stacks:
            own = range(replay.first, replay.first + replay.rows)
            places = [batch + row for batch in range(0, of_whole, replay.total) for row in own]
            return tf.gather(whole, places, axis=axis)
        begin, length = [0] * whole.shape.rank, [-1] * whole.shape.rank
        begin[axis], length[axis] = replay.first * multiple, size
        return tf.slice(whole, begin, length)
    return whole
