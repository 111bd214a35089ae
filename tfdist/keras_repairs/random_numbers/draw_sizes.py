"""Finds which size of a draw is that of the batch: decided by where it comes from, never by its value alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import dtypes

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import ReplicaStep, UnclearSizeError, current_step, replica_count
from tfdist.keras_repairs.base.size_origins import depends_on_data, is_of_other_dimension
from tfdist.keras_repairs.coupling.traced_calls import note, traced_draw
from tfdist.keras_repairs.draw_slices.draw_slice import DrawSlice, Size

Function = Callable[..., Any]


class BatchSize(int):
    """A size that is that of the batch, or a multiple of it: a number as any other, which says where it is from."""

    def __mul__(self, other: Any) -> Any:
        product = int(self) * other
        return BatchSize(product) if isinstance(other, int) else product

    __rmul__ = __mul__


# Keras looks the type of a number up, as in `ops.arange(ops.shape(x)[0])`, and knows no other than Python's own.
dtypes.PYTHON_DTYPES_MAP[BatchSize] = dtypes.PYTHON_DTYPES_MAP[int]


def shape(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.core.shape`: marks a first dimension that is the number of rows.

    In graphs whose batches are of any size it is a tensor, and its origin can be seen. Variables have no such rows.
    """

    def repaired(x: Any) -> tuple[Any, ...]:
        sizes = original(x)
        step = None if isinstance(x, keras.Variable | tf.Variable) else current_step()
        if step is None or step.share.static_rows is None or not sizes or not _is(sizes[0], step.share.static_rows):
            return sizes
        return (BatchSize(sizes[0]), *sizes[1:])

    return repaired


def _is(size: Any, rows: int) -> bool:
    """Returns whether a size is this number: one of a tensor that has lost its shape is itself a tensor."""
    return isinstance(size, int) and size == rows


_INSTEAD = (
    "Draw with keras.random and seed=keras.random.SeedGenerator(...), and take the size from keras.ops.shape(x) of a "
    "tensor x whose first dimension is the batch, or train on one device (`tfdist train` without --workers, --nproc "
    "and --logical-devices)."
)

_SELECT_AFTERWARDS = (
    "Draw for all rows first, and select afterwards, or train on one device (`tfdist train` without --workers, --nproc "
    "and --logical-devices)."
)


def sizes_of(shape: Any) -> tuple[Size, ...]:
    """The sizes of a shape as a script gives it: ints where they are known, else scalar tensors."""
    if isinstance(shape, tf.TensorShape):
        shape = shape.as_list()
    if isinstance(shape, tf.Tensor):
        known = tf.get_static_value(shape)
        if known is not None:
            return tuple(int(size) for size in known)
        shape = [known if known is not None else shape[i] for i, known in enumerate(_known_sizes(shape))]
    return tuple(_known(size) for size in shape)


def slice_of_draw(sizes: Sequence[Size], step: ReplicaStep, name: str, *, is_of_rows: bool = False) -> DrawSlice | None:
    """The replica's slice of a draw with these sizes; None where none of them is that of the batch.

    Args:
        sizes: The sizes of the draw.
        step: The replica's step.
        name: The functions that draw, for messages.
        is_of_rows: Whether it is known that no other size than the first can be that of the batch, and that this one
            is marked where it is a number.

    Raises:
        UnsupportedError: It cannot be told.
    """
    known = traced_draw(sizes, step)
    axis = _axis_of_batch(sizes, step, name, is_of_rows) if known is None else known.axis
    if axis is None:
        return None
    size = tf.cast(sizes[axis], tf.int64)
    rows = tf.maximum(step.share.rows, 1)
    multiple = size // rows
    if step.mode.stacks:
        total = step.share.total * multiple
        return DrawSlice(tuple(sizes), axis, step.share.first, total, places=_places_in_stack(step, rows, multiple))
    if step.trace.draws_by_xla:
        return DrawSlice(tuple(sizes), axis, step.share.first * multiple, step.share.total * multiple, within_xla=True)
    with tf.control_dependencies([_check_multiple(size, rows, name)]):
        total = step.share.total * multiple
    # A replica without samples has a row of another one's.
    return DrawSlice(tuple(sizes), axis, tf.maximum(tf.minimum(step.share.first * multiple, total - size), 0), total)


def has_row_for_each_sample(sizes: Sequence[Size], step: ReplicaStep, name: str) -> bool:
    """Returns whether a size of a draw is that of the batch, or follows from the samples in another way.

    Args:
        sizes: The sizes of the draw.
        step: The replica's step.
        name: The functions that draw, for messages.

    Raises:
        UnsupportedError: It cannot be told.
    """
    known = traced_draw(sizes, step)
    if known is not None:
        return known.axis is not None
    if _first_of_samples(sizes) is not None:
        return True
    _check_fixed(sizes, step, name)
    return False


def note_draw(shape: Any, name: str) -> None:
    """Notes a draw of code that is traced for a batch of any size; see `traced_draws`."""
    sizes = sizes_of(shape)
    note(sizes, _axis_of_unknown(sizes, set(), name))


def note_rows_of_draw(sizes: Sequence[Size]) -> None:
    """Notes a draw as `note_draw` does, of which it matters alone whether it has a row for each sample."""
    note(sizes, _first_of_samples(sizes))


def check_for_xla(shape: Any, name: str) -> None:
    """Checks a draw of code that sees the rows of all replicas, in a step that one device compiles as a whole.

    Args:
        shape: The shape of the draw, as the code gives it.
        name: The functions that draw, for messages.

    Raises:
        UnsupportedError: A size depends on the values of the data: XLA draws for the most rows that there may be, and
            what it draws is not told from the rows that there are.
    """
    sizes = sizes_of(shape)
    if any(depends_on_data(size, set()) for size in sizes):
        raise UnsupportedError(
            f"{name}: a draw of shape {_told(sizes)} has a size that depends on the values of the data (as of "
            "tf.boolean_mask), in a step that is compiled with XLA: one device draws other numbers for it there. "
            f"{_SELECT_AFTERWARDS} Or compile the model with jit_compile=False."
        )


def _places_in_stack(step: ReplicaStep, rows: tf.Tensor, batches: tf.Tensor) -> tf.Tensor:
    """Returns where this replica's rows are in global batches that are put one after the other."""
    # A replica without samples has a row of another one's.
    own = tf.minimum(step.share.first + tf.range(rows), step.share.total - 1)
    return tf.reshape(tf.range(batches)[:, tf.newaxis] * step.share.total + own, [-1])


def _axis_of_batch(sizes: Sequence[Size], step: ReplicaStep, name: str, is_of_rows: bool) -> int | None:
    marked = [axis for axis, size in enumerate(sizes) if isinstance(size, BatchSize)]
    if marked:
        return marked[0]
    axis = _axis_of_unknown(sizes, step.noted.sized_by_rows, name)
    if axis is None and not is_of_rows:
        _check_fixed(sizes, step, name)
    return axis


def _check_fixed(sizes: Sequence[Size], step: ReplicaStep, name: str) -> None:
    """Checks that no size that is a number may be that of the batch.

    Raises:
        UnclearSizeError: One may be.
    """
    if any(_may_be_multiple(size, rows) for size in sizes for rows in _rows_in_play(step)):
        raise UnclearSizeError(
            f"{name}: a draw of shape {_told(sizes)} in a step with {step.share.static_rows} rows. Whether that number "
            f"is the size of the batch or happens to be the same cannot be told. {_INSTEAD} Where it happens to be the "
            "same, take another batch size."
        )


def _first_of_samples(sizes: Sequence[Size]) -> int | None:
    """The first size that is marked as that of the batch, or is not known yet and of no other dimension."""
    return next(
        (
            axis
            for axis, size in enumerate(sizes)
            if isinstance(size, BatchSize) or (isinstance(size, tf.Tensor) and not is_of_other_dimension(size))
        ),
        None,
    )


def _axis_of_unknown(sizes: Sequence[Size], sized_by_rows: set[tuple[int, int, bool]], name: str) -> int | None:
    """The size that is not known before a draw runs, and is that of the batch; None where there is none."""
    unknown = [
        axis for axis, size in enumerate(sizes) if isinstance(size, tf.Tensor) and not is_of_other_dimension(size)
    ]
    if not unknown:
        return None
    if len(unknown) > 1 and unknown[0] != 0:
        raise UnsupportedError(
            f"{name}: {len(unknown)} sizes of a draw of shape {_told(sizes)} are not known before it runs, "
            "and which of them is that of the batch cannot be told. Expected the batch as the first of them. "
            f"{_INSTEAD}"
        )
    if depends_on_data(sizes[unknown[0]], sized_by_rows):
        raise UnsupportedError(
            f"{name}: a draw of shape {_told(sizes)} has a size that depends on the values of the data (as "
            f"of tf.boolean_mask), so its place in what one device draws cannot be told. {_SELECT_AFTERWARDS}"
        )
    return unknown[0]


def _rows_in_play(step: ReplicaStep) -> set[int]:
    """Returns how many rows a replica may have in a step whose sizes are numbers, the same set on all of them.

    What is refused must be refused by all replicas alike: the others would wait for the one that is not there.
    """
    if step.share.static_rows is None:
        return set()
    total = tf.get_static_value(step.share.total)
    if total is None:
        return {step.share.static_rows}
    replicas = replica_count()
    return {step.share.static_rows, max(int(total) // replicas, 1), max(-(-int(total) // replicas), 1)}


def _may_be_multiple(size: Any, rows: int) -> bool:
    """Returns whether a number may be that of the rows, or a multiple of it; of a single row every number is one."""
    return size == rows or (rows > 1 and size > 0 and size % rows == 0)


def _check_multiple(size: tf.Tensor, rows: tf.Tensor, name: str) -> Any:
    return tf.debugging.assert_equal(
        size % rows,
        tf.zeros_like(size),
        f"{name}: the size of a draw is no multiple of the rows of the replica's batch, so its place in what one "
        f"device draws cannot be told. {_INSTEAD}",
    )


def _known_sizes(shape: tf.Tensor) -> list[int | None]:
    """The sizes that a shape is known to have while a step is traced."""
    sizes: list[int | None] = tf.zeros(shape, tf.bool).shape.as_list()
    return sizes


def _known(size: Any) -> Size:
    if isinstance(size, tf.Tensor):
        value = tf.get_static_value(size)
        return size if value is None else int(value)
    return size if isinstance(size, BatchSize) else int(size)


def _told(sizes: Sequence[Size]) -> str:
    return "(" + ", ".join("?" if isinstance(size, tf.Tensor) else str(size) for size in sizes) + ")"
