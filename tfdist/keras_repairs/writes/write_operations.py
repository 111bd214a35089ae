"""The operations of TensorFlow that write something outside of a step, or take something away there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_data_flow_ops, gen_io_ops, gen_logging_ops, gen_lookup_ops, gen_summary_ops

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import current_step, is_alone, is_tried_out
from tfdist.keras_repairs.coupling.trials.noted_writes import note_write
from tfdist.keras_repairs.writes.global_values import of_global_batch
from tfdist.keras_repairs.writes.writing_replica import Where, has_part, nothing_written, writes

Function = Callable[..., Any]


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
