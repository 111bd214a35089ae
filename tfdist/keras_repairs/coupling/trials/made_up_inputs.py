"""Inputs that are made up to try out a layer, and predictions and labels that are made up to try out a loss."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.coupling.trials.split_comparison import FIRST, FREE_SIZE, ROWS
from tfdist.keras_repairs.coupling.trials.trial_scope import rows_on_trial

DRAWS = 4

IGNORING_DRAWS = 2
"""Draws, the first ones, that are tried with ignored labels, too."""

IGNORED = (-1, -100, 255, math.nan)
"""Labels that functions of many projects leave out; a mean over the others is none over the samples."""

_IGNORED_ROWS = [0, -1]
"""Rows with such labels: one of the two in the first part, and one of the three in the second."""


def drawn(y_true: Any, y_pred: Any, draw: int) -> tuple[Any, Any]:
    """Labels and predictions of five rows, of the structures, dtypes and trailing dimensions of those given.

    What has no dimensions is a number for all rows, and remains what it is, where a graph knows that.

    Args:
        y_true: Labels.
        y_pred: Predictions.
        draw: Which draw, below `DRAWS`. In even ones labels are over all classes of the predictions, which are
            probabilities; in odd ones of two classes alone, so that several rows share one, and predictions are of any
            size.
    """
    generator = np.random.default_rng(draw)
    pred = keras.tree.map_structure(lambda spec: _predictions(spec, draw, generator), y_pred)
    return _labels_for(y_true, y_pred, draw, generator), pred


def ignoring(y_true: Any, label: float) -> Any:
    """Labels of which some are `label`; None where their dtype has no such number."""
    trues = keras.tree.flatten(y_true)
    if not all(true.ndim and holds(true.dtype, label) for true in trues):
        return None

    def some_ignored(true: NDArray) -> NDArray:
        ignored = true.copy()
        ignored[_IGNORED_ROWS] = label
        return ignored

    return keras.tree.map_structure(some_ignored, y_true)


def holds(dtype: np.dtype[Any], label: float) -> bool:
    """Returns whether numbers of a dtype can be `label`."""
    if dtype.kind not in "iu":
        return dtype.kind == "f"
    return not math.isnan(label) and np.iinfo(dtype).min <= label <= np.iinfo(dtype).max


def _labels_for(y_true: Any, y_pred: Any, draw: int, generator: np.random.Generator) -> Any:
    trues, preds = keras.tree.flatten(y_true), keras.tree.flatten(y_pred)
    partners = preds if len(preds) == len(trues) else [preds[0]] * len(trues)
    made = [_labels(true, pred, draw, generator) for true, pred in zip(trues, partners, strict=True)]
    return keras.tree.pack_sequence_as(y_true, made)


def _labels(true: Any, pred: Any, draw: int, generator: np.random.Generator) -> NDArray:
    if not (true.shape.rank and pred.shape.rank):
        return _predictions(true, draw, generator)
    shape = _shape(true)
    dtype = true.dtype.as_numpy_dtype
    classes = _classes(pred)
    if shape == _shape(pred):
        if draw >= 2 and true.dtype.is_floating:
            return generator.uniform(0.05, 0.95, shape).astype(dtype)
        if len(shape) > 1 and shape[-1] > 1:
            hot = generator.integers(0, shape[-1] if draw % 2 == 0 else 2, shape[:-1])
            return np.eye(shape[-1])[hot].astype(dtype)
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.integers(0, classes if draw % 2 == 0 else 2, shape).astype(dtype)


def _predictions(pred: Any, draw: int, generator: np.random.Generator) -> NDArray:
    number = None if pred.shape.rank else tf.get_static_value(pred)
    if number is not None:
        return np.asarray(number)
    shape = _shape(pred)
    if not pred.dtype.is_floating:
        return generator.integers(0, 2, shape).astype(pred.dtype.as_numpy_dtype)
    if draw % 2 == 1:
        return generator.normal(size=shape).astype(pred.dtype.as_numpy_dtype)
    values = generator.uniform(0.05, 0.95, shape)
    if len(shape) > 1 and shape[-1] > 1:
        values /= values.sum(axis=-1, keepdims=True)
    return values.astype(pred.dtype.as_numpy_dtype)


def _classes(pred: Any) -> int:
    shape = _shape(pred)
    return max(2, shape[-1]) if len(shape) > 1 else 2


def _shape(tensor: Any) -> tuple[int, ...]:
    return () if not tensor.shape.rank else (ROWS, *(size or FREE_SIZE for size in tensor.shape[1:]))


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
    """The kind of numbers that are made up.

    By the normal ones the largest whole number and the longest text are others in each part of the rows: lengths by
    which a batch is padded. A model may fail on these, as where it looks up which of two there is.
    """

    NORMAL = "of any sign, about 1"
    LARGE = "of any sign, about 10"
    PROPER = "between 0 and 1"


def made_up(arguments: Any, numbers: Numbers = Numbers.NORMAL, *, only_of_any_size: bool = False) -> Inputs:
    """Makes up five rows for the tensors in `arguments`; anything else in it stays as it is.

    Args:
        arguments: A structure of tensors.
        numbers: Of which size floating-point numbers are.
        only_of_any_size: Whether only tensors with a first dimension of any size have a row for each sample. Else those
            have as well that have as many as there are made up.

    Raises:
        ValueError: There is a tensor of which no values can be made up.
    """
    generator = np.random.default_rng(0)
    return Inputs(tf.nest.map_structure(lambda leaf: _made_up(leaf, generator, numbers, only_of_any_size), arguments))


def _made_up(leaf: Any, generator: np.random.Generator, numbers: Numbers, only_of_any_size: bool) -> Any:
    if isinstance(leaf, tf.RaggedTensor):
        return _ragged(leaf, generator, numbers)
    if not isinstance(leaf, tf.Tensor | tf.SparseTensor):
        return leaf
    shape, has_rows = list(leaf.shape), is_of_samples(leaf)
    if only_of_any_size and has_rows:
        has_rows = shape[0] is None
    sizes = [ROWS if has_rows and place == 0 else size or FREE_SIZE for place, size in enumerate(shape)]
    is_sparse = isinstance(leaf, tf.SparseTensor)
    mask = None if is_sparse else backend.get_keras_mask(leaf)
    made = None if mask is None else _made_up(mask, generator, numbers, only_of_any_size)
    return _MadeUp(_values(leaf.dtype, sizes, generator, numbers), has_rows, made, is_sparse)


def _ragged(leaf: tf.RaggedTensor, generator: np.random.Generator, numbers: Numbers) -> _MadeUp:
    lengths, count, first = [], ROWS, FIRST
    for splits in leaf.nested_row_splits:
        # Without empty rows, of which many a step takes no mean.
        drawn_lengths = generator.integers(1, FREE_SIZE + 1, count).astype(splits.dtype.as_numpy_dtype)
        # What is padded to the longest row is another in each part.
        drawn_lengths[:first] = np.minimum(drawn_lengths[:first], FREE_SIZE - 1)
        drawn_lengths[first] = FREE_SIZE
        lengths.append(drawn_lengths)
        count, first = int(drawn_lengths.sum()), int(drawn_lengths[:first].sum())
    inner = [size or FREE_SIZE for size in leaf.flat_values.shape[1:]]
    values = _values(leaf.dtype, [count, *inner], generator, numbers)
    return _MadeUp(values, has_rows=True, mask=None, lengths=tuple(lengths))


def _values(dtype: tf.DType, sizes: list[int], generator: np.random.Generator, numbers: Numbers) -> NDArray:
    if dtype == tf.string:
        texts = np.array(generator.integers(0, 2, sizes)).astype(str).astype(object)
        if numbers is Numbers.NORMAL and sizes[:1] == [ROWS]:
            texts[FIRST] = " ".join(["1"] * FREE_SIZE)
        return texts
    if dtype.is_floating:
        if numbers is Numbers.PROPER:
            return generator.uniform(0.05, 0.95, sizes).astype(dtype.as_numpy_dtype)
        size = 10 if numbers is Numbers.LARGE else 1
        return (size * generator.normal(size=sizes)).astype(dtype.as_numpy_dtype)
    # Small, as they may be looked up.
    integers = generator.integers(0, 2, sizes)
    if numbers is Numbers.NORMAL and sizes[:1] == [ROWS] and dtype.is_integer and 0 not in sizes:
        integers.reshape(ROWS, -1)[FIRST, -1] = 2
    return integers.astype(dtype.as_numpy_dtype)


def is_of_samples(leaf: Any) -> bool:
    """Returns whether the first dimension of a tensor is that of the samples, in a step or in a trial."""
    if leaf.shape.rank in (None, 0):
        return False
    step = current_step()
    rows = rows_on_trial() if step is None else step.share.static_rows
    return leaf.shape[0] is None or leaf.shape[0] == rows


def way_of_calling(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, trains: bool) -> str:
    """Returns what decides how a layer computes, but for the values of its tensors, as one text.

    The structure of its arguments; shapes, dtypes and masks of tensors; the values of what is no tensor, where it has a
    short one; whether it trains or is frozen; and its own switches, which are attributes that are bools or texts.

    Args:
        layer: The layer.
        args: What it is called with.
        kwargs: Likewise, by name.
        trains: Whether it is called for training.
    """
    given = tf.nest.map_structure(_described, (args, dict(sorted(kwargs.items()))))
    switches = {
        name: value
        for name, value in sorted(vars(layer).items())
        if isinstance(value, bool | str) and not name.startswith("_")
    }
    return str((trains, layer.trainable, switches, given))


def _described(leaf: Any) -> str:
    if isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor):
        mask = backend.get_keras_mask(leaf)
        rows = "rows" if is_of_samples(leaf) else leaf.shape[:1]
        shape = None if leaf.shape.rank is None else (rows, leaf.shape[1:])
        return str((type(leaf).__name__, leaf.dtype.name, shape, None if mask is None else _described(mask)))
    if isinstance(leaf, keras.Variable | tf.Variable | np.ndarray):
        return str((type(leaf).__name__, leaf.dtype, leaf.shape))
    if leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes | enum.Enum | tf.DType):
        return repr(leaf)
    return str(getattr(leaf, "__qualname__", type(leaf).__qualname__))
