"""Inputs that are made up to try out a layer, of the structure that it is called with."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.trials.made_up_labels import ignoring
from tfdist.keras_repairs.coupling.trials.split_comparison import FREE_SIZE, ROWS
from tfdist.keras_repairs.coupling.trials.trial_scope import rows_on_trial


@dataclass(frozen=True)
class _MadeUp:
    """A tensor of made-up values.

    Attributes:
        values: All of them.
        has_rows: Whether the first dimension is that of the samples.
        mask: Its Keras mask, or None.
        is_sparse: Whether the layer is called with a sparse tensor.
        lengths: Of a ragged tensor, how long its rows are, and then what is in them; `values` has all of it in a row.
    """

    values: NDArray
    has_rows: bool
    mask: _MadeUp | None
    is_sparse: bool = False
    lengths: tuple[NDArray, ...] = ()

    def rows(self, part: slice) -> Any:
        if self.lengths:
            return tf.RaggedTensor.from_nested_row_lengths(self.values, self.lengths)[part]
        tensor = tf.constant(self.values[part] if self.has_rows else self.values)
        if self.is_sparse:
            return tf.sparse.from_dense(tensor)
        if self.mask is not None:
            backend.set_keras_mask(tensor, self.mask.rows(part))
        return tensor


@dataclass(frozen=True)
class Inputs:
    """Arguments of a call, with made-up values in the place of tensors."""

    arguments: Any

    def rows(self, part: slice) -> Any:
        """The arguments, with tensors of these rows."""
        return tf.nest.map_structure(
            lambda leaf: leaf.rows(part) if isinstance(leaf, _MadeUp) else leaf, self.arguments
        )

    def with_labels(self, label: int) -> Inputs | None:
        """The data of a step, in which some of the whole numbers that are labels are `label`; None without such."""
        if not isinstance(self.arguments, tuple) or len(self.arguments) < 2:
            return None
        leaves = [leaf for leaf in tf.nest.flatten(self.arguments[1]) if isinstance(leaf, _MadeUp)]
        if not leaves or any(leaf.values.dtype.kind != "i" or not leaf.has_rows or leaf.lengths for leaf in leaves):
            return None
        values = ignoring([leaf.values for leaf in leaves], label)
        if values is None:
            return None
        replaced = iter([replace(leaf, values=new) for leaf, new in zip(leaves, values, strict=True)])
        labels = tf.nest.map_structure(
            lambda leaf: next(replaced) if isinstance(leaf, _MadeUp) else leaf, self.arguments[1]
        )
        return Inputs((self.arguments[0], labels, *self.arguments[2:]))


class Numbers(enum.Enum):
    """The kind of floating-point numbers that are made up."""

    NORMAL = "of any sign, about 1"
    LARGE = "of any sign, about 10"
    PROPER = "between 0 and 1"


def made_up(arguments: Any, numbers: Numbers = Numbers.NORMAL) -> Inputs:
    """Makes up five rows for the tensors in `arguments`; anything else in it stays as it is.

    Args:
        arguments: A structure of tensors.
        numbers: Of which size floating-point numbers are.

    Raises:
        ValueError: There is a tensor of which no values can be made up.
    """
    generator = np.random.default_rng(0)
    return Inputs(tf.nest.map_structure(lambda leaf: _made_up(leaf, generator, numbers), arguments))


def _made_up(leaf: Any, generator: np.random.Generator, numbers: Numbers) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        return _ragged(leaf, generator, numbers)
    if not isinstance(leaf, tf.Tensor | tf.SparseTensor):
        return leaf
    shape, has_rows = list(leaf.shape), is_of_samples(leaf)
    sizes = [ROWS if has_rows and place == 0 else size or FREE_SIZE for place, size in enumerate(shape)]
    is_sparse = isinstance(leaf, tf.SparseTensor)
    mask = None if is_sparse else backend.get_keras_mask(leaf)
    made = None if mask is None else _made_up(mask, generator, numbers)
    return _MadeUp(_values(leaf.dtype, sizes, generator, numbers), has_rows, made, is_sparse)


def _ragged(leaf: tf.RaggedTensor, generator: np.random.Generator, numbers: Numbers) -> _MadeUp:
    lengths, count = [], ROWS
    for splits in leaf.nested_row_splits:
        # Without empty rows, of which many a step takes no mean.
        lengths.append(generator.integers(1, FREE_SIZE + 1, count).astype(splits.dtype.as_numpy_dtype))
        count = int(lengths[-1].sum())
    inner = [size or FREE_SIZE for size in leaf.flat_values.shape[1:]]
    values = _values(leaf.dtype, [count, *inner], generator, numbers)
    return _MadeUp(values, has_rows=True, mask=None, lengths=tuple(lengths))


def _values(dtype: tf.DType, sizes: list[int], generator: np.random.Generator, numbers: Numbers) -> NDArray:
    if dtype == tf.string:
        return np.array(generator.integers(0, 2, sizes)).astype(str).astype(object)
    if dtype.is_floating:
        if numbers is Numbers.PROPER:
            return generator.uniform(0.05, 0.95, sizes).astype(dtype.as_numpy_dtype)
        size = 10 if numbers is Numbers.LARGE else 1
        return (size * generator.normal(size=sizes)).astype(dtype.as_numpy_dtype)
    # Small, as they may be looked up.
    return generator.integers(0, 2, sizes).astype(dtype.as_numpy_dtype)


def is_of_samples(leaf: Any) -> bool:
    """Returns whether the first dimension of a tensor is that of the samples, in a step or in a trial."""
    if leaf.shape.rank in (None, 0):
        return False
    step = current_step()
    rows = rows_on_trial() if step is None else step.share.static_rows
    return leaf.shape[0] is None or leaf.shape[0] == rows
