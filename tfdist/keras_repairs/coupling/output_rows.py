"""Which outputs of a call on the rows of all replicas have rows of the batch, of which each replica takes its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend
from keras.src.backend.common.stateless_scope import get_stateless_scope

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows

Call = Callable[[Any], Any]


def of_call(
    call: Call, values: Any, is_gathered: Sequence[bool], outputs: Sequence[Any], total: int | None
) -> list[bool]:
    """Which outputs have rows: those whose first size is not known where that of the batch is not.

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
        return [has_rows(output) and output.shape[0] is None for output in outputs]
    # Every size is a multiple of one. In a batch of a single row nothing has to be told apart: one replica has it, and
    # the others work on its copy.
    multiples = [total > 1 and has_rows(output) and (output.shape[0] or 0) % total == 0 for output in outputs]
    if not any(multiples):
        return multiples
    traced = traced_outputs(call, values, is_gathered)
    if traced is not None and len(traced) == len(outputs):
        return [has_rows(output) and output.shape[0] is None for output in traced]
    several = next((o for o, has in zip(outputs, multiples, strict=True) if has and o.shape[0] != total), None)
    if several is not None:
        raise UnsupportedError(
            f"tfdist.gathered(...) returned a tensor of shape {tuple(several.shape)} for a batch of {total} rows, in a "
            "step that runs eagerly and cannot be traced. Whether its first dimension is that of the batch cannot be "
            "told. Return one row for each sample, or leave out run_eagerly=True."
        )
    return multiples


def traced_outputs(call: Call, values: Any, are_rows: Sequence[bool]) -> list[Any] | None:
    """The outputs of `call` for a batch of any size, as symbols; None where it cannot be traced.

    Args:
        call: Computes a structure of tensors from one like `values`.
        values: A structure of tensors.
        are_rows: Which of its leaves have the rows of a batch.
    """
    leaves = tf.nest.flatten(values)
    places = [place for place, has in enumerate(are_rows) if has]
    outputs: list[Any] = []

    def trace(given: Sequence[Any]) -> None:
        symbols = list(leaves)
        for place, symbol in zip(places, given, strict=True):
            symbols[place] = symbol
            if (mask := backend.get_keras_mask(leaves[place])) is not None:
                free = tf.compat.v1.placeholder_with_default(mask, [None, *mask.shape[1:]])
                backend.set_keras_mask(symbol, free)
        outputs.extend(tf.nest.flatten(call(tf.nest.pack_sequence_as(values, symbols))))

    try:
        with _symbols_not_assigned():
            tf.function(trace, autograph=False).get_concrete_function([_of_any_size(leaves[place]) for place in places])
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


def _of_any_size(leaf: Any) -> tf.TypeSpec:
    if isinstance(leaf, tf.RaggedTensor):
        shape = [None, *leaf.shape[1:]]
        return tf.RaggedTensorSpec(shape, leaf.dtype, leaf.ragged_rank, leaf.row_splits.dtype)
    return tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype)
