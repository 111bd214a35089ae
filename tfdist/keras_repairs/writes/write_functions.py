"""Functions of TensorFlow that write: of the global batch in a step, and nothing where code is tried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, global_batch_step, is_tried_out
from tfdist.keras_repairs.coupling.trials.noted_writes import note_write
from tfdist.keras_repairs.writes.global_values import of_global_batch
from tfdist.keras_repairs.writes.writing_replica import Where, has_part, nothing_written, of_all, writes

Function = Callable[..., Any]


def summary(original: Function) -> Function:
    """Repairs `tf.summary.write`, by which all kinds of summaries are written.

    All replicas meet to sum what is written, also where only one of them has a writer.
    """

    def repaired(tag: Any, tensor: Any, step: Any = None, metadata: Any = None, name: Any = None) -> Any:
        if not is_tried_out() and not has_part():
            return original(tag, tensor, step=step, metadata=metadata, name=name)
        value = tensor() if callable(tensor) else tensor
        if is_tried_out():
            note_write(f"tf.summary ({tag!r})", [value])
            return tf.constant(False)
        value = of_global_batch(f"tf.summary ({tag!r})", value)
        with of_all():
            return original(tag, value, step=step, metadata=metadata, name=name)

    return repaired


def printing(original: Function) -> Function:
    """Repairs `tf.print`."""

    def repaired(*inputs: Any, **kwargs: Any) -> Any:
        if is_tried_out():
            note_write("tf.print", tf.nest.flatten(inputs))
            return nothing_written()
        if not has_part():
            return original(*inputs, **kwargs)
        values = tf.nest.map_structure(lambda leaf: of_global_batch("tf.print", leaf), inputs)
        with of_all():
            return original(*values, **kwargs)

    return repaired


def python_function(what: str) -> Callable[[Function], Function]:
    """Repairs what `tf.py_function` and `tf.numpy_function` call: a function without results is called to write.

    One with results is taken for one that computes them; see `check_results_are_used`.

    Args:
        what: As the user calls it.
    """

    def made(original: Function) -> Function:
        def repaired(func: Any, inp: Any, Tout: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
            if not isinstance(Tout, list | tuple) or Tout:
                results = original(func, inp, Tout, *args, **kwargs)
                if not str(getattr(func, "__module__", "")).startswith("tfdist."):
                    _note_results(what, results)
                return results
            inputs = list(inp) if isinstance(inp, list | tuple) else [inp]
            if is_tried_out():
                note_write(what, inputs)
                return nothing_written()
            if has_part():
                inputs = [of_global_batch(what, leaf) for leaf in inputs]
            if not writes(Where.IN_PROCESS):
                return nothing_written()
            with of_all():
                return original(func, inputs, Tout, *args, **kwargs)

        return repaired

    return made


def check_results_are_used(step: ReplicaStep, outputs: Any) -> None:
    """Looks at the Python functions with results that a step calls, once it is traced.

    Args:
        step: The step.
        outputs: What it returns.

    Raises:
        UnsupportedError: Nothing uses what one returns: it is called for what it does besides, on every replica.
    """
    returned = {id(leaf) for leaf in tf.nest.flatten(outputs)}
    for what, results in step.noted.python_results:
        if not any(id(result) in returned or _is_used(result) for result in results):
            raise UnsupportedError(
                f"A step of several replicas calls {what}, and nothing uses what it returns: so it is called for what "
                "it does besides, and each replica would do that with its own samples. Expected Tout=[], with which "
                "it is called once a step, with the means or the rows of the global batch. Give it Tout=[] and a "
                "function that returns None, or leave it out."
            )


def _is_used(result: tf.Tensor) -> bool:
    """Returns whether an operation takes a tensor, or waits for what makes it."""
    return bool(result.consumers() or result.op._control_outputs)


def _note_results(what: str, results: Any) -> None:
    step = current_step() or global_batch_step()
    leaves = [leaf for leaf in tf.nest.flatten(results, expand_composites=True) if isinstance(leaf, tf.Tensor)]
    if step is not None and leaves and not is_tried_out() and not tf.executing_eagerly():
        step.noted.python_results.append((what, leaves))
