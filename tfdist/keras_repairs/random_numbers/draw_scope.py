"""Tells a draw about the code that it is in, with code of Keras's, TensorFlow's or the user's in between."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field

import tensorflow as tf

from tfdist.keras_repairs.random_numbers.draw_slice import DrawSlice


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
