"""Calls: the collectives by name, with the primitive that each runs and the shape that each gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import tensorflow as tf

from tfdist.errors import UnsupportedError, UsageError
from tfdist.runtime.collectives.wire.engine import Reduction
from tfdist.text import safe_repr

Kind = Literal[
    "all_reduce", "reduce", "broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_to_all", "send"
]
Primitive = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"]

REDUCTIONS = ("sum", "mean", "product", "max", "min")

_PRIMITIVES: dict[Kind, Primitive] = {
    "all_reduce": "all_reduce",
    "reduce": "all_reduce",
    "broadcast": "broadcast",
    "send": "broadcast",
    # The root's own rows are what each worker gets from it; those of the others are nobody's.
    "scatter": "all_to_all",
    "gather": "all_gather",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
}
_TO_ONE: tuple[Kind, ...] = ("reduce", "gather")
_CUT: tuple[Kind, ...] = ("scatter", "reduce_scatter", "all_to_all")
"""Kinds that cut a value along its first axis into a part for each worker."""

CUTS = "cuts the first axis of a value into equal parts"
"""The words of a text about a value in which there are no equal parts."""


@dataclass(frozen=True)
class Call:
    """One collective.

    Attributes:
        kind: Its name; a `recv` is the other end of a `send`.
        op: For reductions one of `REDUCTIONS`.
        root: For kinds with one worker that gives or gets, its index in the job.
        gradient_of: Of a call that computes a gradient, the call whose gradient it is, in words.
    """

    kind: Kind
    op: str | None = None
    root: int | None = None
    gradient_of: str | None = None

    def __str__(self) -> str:
        name = self.kind if self.op is None else f"{self.kind}({self.op})"
        if self.root is not None:
            name += f" {'to' if self.kind in _TO_ONE else 'from'} worker {self.root}"
        return name if self.gradient_of is None else f"{name} for the gradient of {self.gradient_of}"

    @property
    def primitive(self) -> Primitive:
        """The primitive that an engine runs for it."""
        return _PRIMITIVES[self.kind]

    @property
    def is_cut(self) -> bool:
        """True if it cuts a value along its first axis into a part for each worker."""
        return self.kind in _CUT

    @property
    def reduction(self) -> Reduction:
        """The reduction that an engine runs for its `op`: a mean is a sum, divided."""
        return "sum" if self.op == "mean" else cast(Reduction, self.op)

    @property
    def needs_one_giver(self) -> bool:
        """True if the values of the root alone count."""
        return self.kind in ("broadcast", "scatter", "send")

    def has_result(self, worker: int) -> bool:
        """Returns whether a worker gets something."""
        return self.kind not in _TO_ONE or worker == self.root

    @property
    def has_gradient(self) -> bool:
        """True if a gradient goes through it."""
        if self.op is not None:
            return self.kind in ("all_reduce", "reduce_scatter") and self.op in ("sum", "mean")
        return self.kind in ("all_gather", "all_to_all", "broadcast")

    def uncut(self, shape: str, workers: int) -> str:
        """The text for a value of a shape, in words, whose first axis cannot be cut."""
        return (
            f"{self} {CUTS} for {workers} workers. Received: a value of shape {shape}. Pad it, as with tf.pad, or give "
            f"a value of shape ({workers}, ...)."
        )

    def shape_of_result(self, shape: Sequence[int | None], workers: int) -> list[int | None]:
        """The shape that it makes of a value's.

        Raises:
            UsageError: A value's first axis cannot be cut.
        """
        if self.kind in ("gather", "all_gather"):
            return [workers, *shape]
        if not self.is_cut:
            return list(shape)
        if not shape or (shape[0] is not None and shape[0] % workers):
            raise UsageError(self.uncut(str(tuple(shape)), workers))
        if self.kind == "all_to_all":
            return list(shape)
        return [None if shape[0] is None else shape[0] // workers, *shape[1:]]


def check_reduction(op: object, call: str) -> str:
    """The reduction that an argument names.

    Raises:
        UsageError: There is no such reduction.
    """
    if op not in REDUCTIONS:
        raise UsageError(f"{call} expects op to be one of {sorted(REDUCTIONS)}. Received: op={safe_repr(op)}")
    return str(op)


Run = Callable[[Call, Sequence[tf.Tensor]], list[tf.Tensor]]

_INSTEAD = {
    "reduce": "tfdist.all_reduce",
    "gather": "tfdist.all_gather",
    "scatter": "tfdist.broadcast, and this worker's part of it",
    "send": "tfdist.all_to_all",
}


def with_gradient(
    call: Call,
    tensors: Sequence[tf.Tensor],
    results: Sequence[tf.Tensor],
    workers: tuple[int, ...],
    own: int,
    run: Run,
    watched: tf.Variable,
) -> list[tf.Tensor]:
    """The results of a call, connected to what it was given for `tf.GradientTape`.

    All workers of the group take the gradient of a loss that depends on the results, in the same order: it runs the
    transposed collective. So a worker runs it even where its tape does not watch what it gave, as others watch theirs.

    Args:
        call: The call.
        tensors: What it was given.
        results: One for each.
        workers: Of the group.
        own: This worker.
        run: Runs another call in the same group.
        watched: A trainable number of this worker, on which nothing depends.
    """
    places = [place for place, tensor in enumerate(tensors) if tensor.dtype.is_floating or tensor.dtype.is_complex]
    connected = list(results)
    if not places:
        return connected

    @tf.custom_gradient
    def connect(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor]]]:
        def backward(*upstream: tf.Tensor) -> list[tf.Tensor]:
            dense = [tf.convert_to_tensor(gradient) for gradient in upstream]
            found = _transposed(call, dense, workers, own, run)
            given, unused = inputs[: len(found)], inputs[len(found) :]
            return [
                *(tf.reshape(gradient, tf.shape(tensor)) for gradient, tensor in zip(found, given, strict=True)),
                *map(tf.zeros_like, unused),
            ]

        return [tf.identity(results[place]) for place in places], backward

    # A call that has no gradient says so where its input is watched, and stays a constant where it is not. The gradient
    # of a loop in a function cannot read another variable.
    is_watched = call.has_gradient and (call.gradient_of is None or tf.executing_eagerly())
    always = [watched.read_value()] if is_watched else []
    found = connect(*(tensors[place] for place in places), *always)
    for place, tensor in zip(places, found if isinstance(found, list | tuple) else [found], strict=True):
        connected[place] = tensor
    return connected


def _transposed(
    call: Call, upstream: Sequence[tf.Tensor], workers: tuple[int, ...], own: int, run: Run
) -> list[tf.Tensor]:
    match call:
        case Call("all_reduce", "sum" | "mean"):
            return run(call, upstream)
        case Call("all_gather"):
            return run(Call("reduce_scatter", "sum"), upstream)
        case Call("reduce_scatter", "sum"):
            return run(Call("all_gather"), upstream)
        case Call("reduce_scatter", "mean"):
            return [gradient / tf.cast(len(workers), gradient.dtype) for gradient in run(Call("all_gather"), upstream)]
        case Call("all_to_all"):
            return run(call, upstream)
        case Call("broadcast"):
            totals = run(Call("all_reduce", "sum"), upstream)
            return totals if own == call.root else [tf.zeros_like(total) for total in totals]
    instead = _INSTEAD.get(call.kind, "a sum or mean")
    raise UnsupportedError(
        f"There is no gradient of {call}, in which workers have different parts. Expected a gradient through "
        "all_reduce or reduce_scatter (sum, mean), all_gather, all_to_all or broadcast. Use "
        f"{instead}, or tf.stop_gradient on its input."
    )
