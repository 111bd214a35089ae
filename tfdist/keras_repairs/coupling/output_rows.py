"""Finds the outputs of a call on all replicas' rows that have rows of the batch; each replica takes its own of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend
from keras.src.backend.common.stateless_scope import get_stateless_scope

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import changed_axis, has_rows
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.keras_repairs.coupling.trials.steps.step_capture import without_readings

Call = Callable[[Any], Any]

_SIZES = (4, 8)
"""For which a call is traced to see what in its outputs follows from the rows of the batch."""


def of_call(
    call: Call, values: Any, is_gathered: Sequence[bool], outputs: Sequence[Any], total: int | None
) -> list[int | None]:
    """Along which axis each output has rows, None where it has none: its size is not known where the batch's is not.

    It is the first one wherever that may be. The experts of a mixture return [experts, rows, ...]: there the call is
    traced for batches of two sizes, which tells what follows from the batch, and what from the time steps.

    In a step that runs eagerly all sizes are numbers, and one may be that of the batch by chance. There the call is
    traced once more, for a batch of any size, which computes nothing.

    Args:
        call: What was called.
        values: What it was called with.
        is_gathered: Which leaves of `values` have the rows of all replicas.
        outputs: What it returned, flattened.
        total: The rows of `values` where they are known.

    Raises:
        UnsupportedError: An output may have several rows to each of the batch, and the call cannot be traced.
    """
    if total is None:
        return axes_of_rows(call, values, is_gathered, outputs)
    # Every size is a multiple of one. In a batch of a single row nothing has to be told apart: one replica has it, and
    # the others work on its copy.
    multiples = [total > 1 and has_rows(output) and _is_multiple(output, total) for output in outputs]
    if not any(multiples):
        return [None] * len(outputs)
    traced = traced_outputs(call, values, is_gathered)
    if traced is not None and len(traced) == len(outputs):
        return axes_of_rows(call, values, is_gathered, traced)
    unclear = next((o for o, has in zip(outputs, multiples, strict=True) if has and o.shape[0] != total), None)
    if unclear is not None:
        raise UnsupportedError(
            f"tfdist.gathered(...) returned a tensor of shape {tuple(unclear.shape)} for a batch of {total} rows, in a "
            "step that runs eagerly and cannot be traced. Which of its dimensions is that of the batch cannot be told. "
            "Return one row for each sample, or leave out run_eagerly=True."
        )
    return [0 if has else None for has in multiples]


def _is_multiple(output: Any, total: int) -> bool:
    """Returns whether any size of a tensor may be that of the batch, or several times as large."""
    return output.shape.rank is None or any(size is None or size % total == 0 for size in output.shape)


def axes_of_rows(call: Call, values: Any, are_rows: Sequence[bool], outputs: Sequence[Any]) -> list[int | None]:
    """As `of_call`, of outputs of which the sizes that follow from the batch are not known.

    Raises:
        UnsupportedError: They may have rows along another axis than the first, and the call cannot be traced.
    """
    first = [output.shape[0] if has_rows(output) else 0 for output in outputs]
    of_batch = {None, *(size for size in set(first) if size and _is_only_for(call, values, are_rows, size))}
    axes = [0 if size in of_batch else None for size in first]
    places = [place for place, output in enumerate(outputs) if axes[place] is None and _is_open(output)]
    if not places:
        return axes
    traces = [traced_outputs(call, values, are_rows, rows) for rows in _SIZES]
    few, many = (outputs if traced is None else traced for traced in traces)
    if None in traces or not len(few) == len(many) == len(outputs):
        raise UnsupportedError(
            f"tfdist.gathered(...) or a predict_step returned a tensor of shape {tuple(outputs[places[0]].shape)}, and "
            "cannot be traced for batches of a known size. Which of its dimensions is that of the batch cannot be "
            "told. Return a tensor whose first dimension is that of the batch."
        )
    for place in places:
        axes[place] = changed_axis(few[place], many[place])
    return axes


def _is_only_for(call: Call, values: Any, are_rows: Sequence[bool], size: int) -> bool:
    """Returns whether a call takes batches of a size alone, such as one that makes 96 tokens of the samples: sizes of
    what it returns are then numbers, that of the batch, too."""
    if traced_outputs(call, values, are_rows, 2 * size) is not None:
        return False
    return traced_outputs(call, values, are_rows, size) is not None


def _is_open(output: Any) -> bool:
    """Returns whether a size of a tensor is not known."""
    return has_rows(output) and None in tuple(output.shape)


def traced_outputs(
    call: Call, values: Any, are_rows: Sequence[bool], rows: int | None = None
) -> list[Any] | None:
    """The outputs of `call` for a batch of any size or a given one, as symbols; None where it cannot be traced.

    Args:
        call: Computes a structure of tensors from one like `values`.
        values: A structure of tensors.
        are_rows: Which of its leaves have the rows of a batch.
        rows: How many; None for any size.
    """
    leaves = tf.nest.flatten(values)
    places = [place for place, has in enumerate(are_rows) if has]
    outputs: list[Any] = []

    def trace(given: Sequence[Any]) -> None:
        symbols = list(leaves)
        for place, symbol in zip(places, given, strict=True):
            symbols[place] = symbol
            if (mask := backend.get_keras_mask(leaves[place])) is not None:
                free = tf.compat.v1.placeholder_with_default(mask, [rows, *mask.shape[1:]])
                backend.set_keras_mask(symbol, free)
        outputs.extend(tf.nest.flatten(call(tf.nest.pack_sequence_as(values, symbols))))

    try:
        with _symbols_not_assigned(), _symbols_not_kept(), without_readings():
            specs = [_of_size(leaves[place], rows) for place in places]
            tf.function(trace, autograph=False).get_concrete_function(specs)
    except Exception:  # The user's code, which need not work in graphs.
        return None
    return outputs


@contextlib.contextmanager
def _symbols_not_assigned() -> Iterator[None]:
    """Drops what the code inside assigns to variables of Keras where they are in a scope: it would be symbols."""
    scope = get_stateless_scope()
    before = None if scope is None else dict(scope.state_mapping)
    try:
        yield
    finally:
        if scope is not None:
            scope.state_mapping = before


def _of_size(leaf: Any, rows: int | None) -> tf.TypeSpec:
    if isinstance(leaf, tf.RaggedTensor):
        shape = [rows, *leaf.shape[1:]]
        return tf.RaggedTensorSpec(shape, leaf.dtype, leaf.ragged_rank, leaf.row_splits.dtype)
    return tf.TensorSpec([rows, *leaf.shape[1:]], leaf.dtype)


@contextlib.contextmanager
def _symbols_not_kept() -> Iterator[None]:
    """Gives the objects of a model back what they have kept of its step, in attributes and lists."""
    kept = REPLICA_SCOPE.get().kept
    state = None if kept is None else kept.read()
    try:
        yield
    finally:
        if kept is not None:
            kept.write(state)
