"""Functions and operations of TensorFlow that write: of the global batch in a step, and nothing where code is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_data_flow_ops, gen_io_ops, gen_logging_ops, gen_lookup_ops, gen_summary_ops

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, global_batch_step, is_alone, is_tried_out
from tfdist.keras_repairs.coupling.trials.trial_notes import note_write
from tfdist.keras_repairs.writes.global_values import Where, has_part, nothing_written, of_all, of_global_batch, writes


@dataclass(frozen=True)
class Operation:
    """A function of TensorFlow that makes an operation.

    Attributes:
        owner: Its module.
        name: Its name there.
        what: What a user calls it.
        where: Where there is what it writes, or what it takes something from.
        also: Public modules that have it under the same name.
    """

    owner: Any
    name: str
    what: str
    where: Where = Where.OUTSIDE
    also: tuple[Any, ...] = ()


_SUMMARIES = (
    *("write_summary", "write_raw_proto_summary", "write_graph_summary", "write_scalar_summary"),
    *("write_histogram_summary", "write_image_summary", "write_audio_summary", "import_event"),
    *("create_summary_file_writer", "flush_summary_writer", "close_summary_writer"),
)
_ENQUEUE = ("queue_enqueue_v2", "queue_enqueue_many_v2", "queue_close_v2")
_DEQUEUE = ("queue_dequeue_v2", "queue_dequeue_many_v2", "queue_dequeue_up_to_v2")
_TABLES = ("lookup_table_insert_v2", "lookup_table_remove_v2")

WRITING = (
    *(Operation(gen_summary_ops, name, "tf.summary") for name in _SUMMARIES),
    Operation(gen_logging_ops, "print_v2", "tf.print"),
    Operation(gen_io_ops, "write_file", "tf.io.write_file", also=(tf.io, tf.compat.v2.io)),
    *(Operation(gen_io_ops, name, "the saving of tensors") for name in ("save", "save_v2", "save_slices")),
    *(Operation(gen_data_flow_ops, name, "a tf.queue", Where.IN_PROCESS) for name in _ENQUEUE),
    *(Operation(gen_lookup_ops, name, "a tf.lookup table", Where.IN_PROCESS) for name in _TABLES),
)
"""Operations without a result."""

TAKING = tuple(Operation(gen_data_flow_ops, name, "a tf.queue", Where.IN_PROCESS) for name in _DEQUEUE)
"""Operations whose result is what they take away."""


def writing(operation: Operation) -> Callable[[Function], Function]:
    """Repairs the function of an operation that writes."""

    def made(original: Function) -> Function:
        def repaired(*args: Any, **kwargs: Any) -> Any:
            if is_tried_out():
                note_write(operation.what, [leaf for leaf in tf.nest.flatten((args, kwargs)) if _is_value(leaf)])
                return nothing_written()
            if has_part():
                args, kwargs = tf.nest.map_structure(lambda leaf: _of_all(operation.what, leaf), (args, kwargs))
            return original(*args, **kwargs) if writes(operation.where) else nothing_written()

        return repaired

    return made


def taking(operation: Operation) -> Callable[[Function], Function]:
    """Repairs the function of an operation that takes something away."""

    def made(original: Function) -> Function:
        def repaired(*args: Any, **kwargs: Any) -> Any:
            if is_tried_out() or current_step() is not None or is_alone():
                raise UnsupportedError(
                    f"A step of several replicas takes elements out of {operation.what}: each replica would take "
                    "others than one device. Expected what fit, evaluate or predict are given. Put the elements into "
                    "the dataset (tf.data.Dataset.zip, dataset.map), or run on one device."
                )
            return original(*args, **kwargs)

        return repaired

    return made


def _of_all(what: str, leaf: Any) -> Any:
    return of_global_batch(what, leaf) if _is_value(leaf) else leaf


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.dtype != tf.resource


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
