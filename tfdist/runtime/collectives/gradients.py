"""Gradients of collectives: that of a sum over the losses of all workers is the transposed collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.runtime.collectives.calls import Call

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
