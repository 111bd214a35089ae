"""Made-up labels, predictions and weights of a few samples, on which a metric is tried out.

Several kinds of each, as a metric may see nothing in one: labels as classes or one-hot, with some that are the most
probable class and some that are not; predictions as probabilities, logits and positive numbers. And labels that many
projects leave out, as a mean over the others is none over the samples.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src import backend

from tfdist.keras_repairs.coupling.trials.made_up_inputs import IGNORED, holds
from tfdist.keras_repairs.coupling.trials.split_comparison import FREE_SIZE
from tfdist.keras_repairs.forward.metric_scope import Kind, kinds_of

WEIGHT = "sample_weight"

_SIZES = ((3, 5), (4, 7), (5, 6), (6, 13), (9, 10))
"""Samples of two parts. Unequal, so that their shares are; none of a size that another dimension has."""

_MANY = 1 << 21
"""Numbers in a draw from which on one seed must do."""

_SEEDS = 2

_ROUNDING = {tf.float16: 1e-3, tf.bfloat16: 8e-3}

Array = np.ndarray
Style = Callable[[np.random.Generator, tuple[int, ...]], Array]


class CannotBeDrawn(ValueError):
    """An argument of the metric is none that values can be made up for."""


@dataclass(frozen=True)
class Draw:
    """One set of made-up arguments: `parts` of them, one after the other, are the `whole`.

    Attributes:
        whole: The arguments of one update.
        parts: Those of the first and of the second part.
        sizes: Samples of the two parts.
        is_odd: Whether there are labels among them that a metric need not take.
    """

    whole: inspect.BoundArguments
    parts: tuple[inspect.BoundArguments, inspect.BoundArguments]
    sizes: tuple[int, int]
    is_odd: bool = False


@dataclass(frozen=True)
class _Rows:
    """Shape of one sample and dtype of an argument, and the shape of its mask, if it has one."""

    shape: tuple[int, ...]
    dtype: tf.DType
    mask: tuple[int, ...] | None

    @classmethod
    def of(cls, tensor: tf.Tensor) -> _Rows:
        shape = tuple(FREE_SIZE if size is None else size for size in tensor.shape[1:])
        mask = backend.get_keras_mask(tensor)
        return cls(shape, tensor.dtype, None if mask is None else shape[: mask.shape.rank - 1])


@dataclass(frozen=True)
class _Arrays:
    """Numbers of all samples, for the leaves at some places: their values and their masks; and weights."""

    values: dict[int, Array]
    masks: dict[int, Array]
    weights: Array | None


class Drawer:
    """Makes up arguments of the shapes and dtypes with which a metric is updated.

    Args:
        bound: The arguments of one call of its `update_state`.

    Raises:
        CannotBeDrawn: They hold something that has no row for each sample.
    """

    def __init__(self, bound: inspect.BoundArguments) -> None:
        self._signature = bound.signature
        self._arguments = dict(bound.arguments)
        self._weight: _Rows | None = None
        weight = self._arguments.pop(WEIGHT, None)
        # By their places: TensorFlow flattens a dict in the order of its keys.
        self._leaves = tf.nest.flatten(list(self._arguments.values()))
        self._rows = {
            place: _rows_of(leaf, kind)
            for place, (leaf, kind) in enumerate(zip(self._leaves, kinds_of(self._leaves), strict=True))
            if kind is not Kind.CONSTANT
        }
        if not self._rows:
            raise CannotBeDrawn("it is given no tensor")
        self.is_weighted = weight is not None
        if isinstance(weight, tf.Tensor):
            self._weight = _rows_of(weight, Kind.ROWS)

    @property
    def is_masked(self) -> bool:
        """True if one of the arguments has a mask."""
        return any(rows.mask is not None for rows in self._rows.values())

    @property
    def rounding(self) -> float:
        """The relative size of the steps of the coarsest floats among the arguments."""
        return max((_ROUNDING.get(rows.dtype, 0.0) for rows in self._rows.values()), default=0.0)

    def draws(self, *, weighted: bool) -> Iterator[Draw]:
        """Every kind of draw, with every seed; without weights also with labels that metrics leave out.

        Args:
            weighted: Whether with weights for the samples.
        """
        sizes = self._sizes()
        numbers = sum(sizes) * sum(math.prod(rows.shape) for rows in self._rows.values())
        for seed in range(_SEEDS if numbers < _MANY else 1):
            for kind, (name, style) in enumerate(self._styles()):
                arrays = self._arrays(np.random.default_rng([seed, kind]), sum(sizes), name, style, weighted=weighted)
                yield self._draw(arrays, sizes)
        if weighted:
            return
        labels, rows = next(iter(self._rows.items()))
        for label in IGNORED:
            if holds(np.dtype(rows.dtype.as_numpy_dtype), label):
                arrays = self._arrays(np.random.default_rng(0), sum(sizes), *self._styles()[0], weighted=False)
                # In one of the parts, for the other labels to be another share of it.
                arrays.values[labels][0] = label
                yield self._draw(arrays, sizes, is_odd=True)

    def _draw(self, arrays: _Arrays, sizes: tuple[int, int], *, is_odd: bool = False) -> Draw:
        parts = (self._cut(arrays, slice(0, sizes[0])), self._cut(arrays, slice(sizes[0], None)))
        return Draw(self._cut(arrays, slice(None)), parts, sizes, is_odd)

    def like(self, arguments: inspect.BoundArguments, leaves: Sequence[Any]) -> inspect.BoundArguments:
        """The arguments of a call with other leaves."""
        return self._bound(tf.nest.pack_sequence_as(dict(arguments.arguments), leaves))

    def _sizes(self) -> tuple[int, int]:
        used = {size for rows in self._rows.values() for size in rows.shape}
        return next((pair for pair in _SIZES if not used & {*pair, sum(pair)}), _SIZES[-1])

    def _styles(self) -> Sequence[tuple[str, Style]]:
        """Returns what is drawn: the kind of the labels and the style of the predictions, the first two arguments."""
        rows = list(self._rows.values())
        if len(rows) == 1:
            return [("", style) for style in _PREDICTIONS]
        return [(name, style) for name in _label_kinds(rows[0], rows[1]) for style in _PREDICTIONS]

    def _arrays(
        self, generator: np.random.Generator, samples: int, name: str, style: Style, *, weighted: bool
    ) -> _Arrays:
        shapes = {place: (samples, *rows.shape) for place, rows in self._rows.items()}
        values = {place: style(generator, shape) for place, shape in shapes.items()}
        if name:
            labels, predictions = list(shapes)[:2]
            values[labels] = _labels(name, generator, shapes[labels], values[predictions])
        masks = {
            place: generator.random((samples, *rows.mask)) > 0.3
            for place, rows in self._rows.items()
            if rows.mask is not None
        }
        shape = (samples, *(() if self._weight is None else self._weight.shape))
        # Some samples count nothing.
        weights = generator.uniform(0.0, 2.0, shape) * (generator.random(shape) > 0.2) if weighted else None
        return _Arrays(values, masks, weights)

    def _cut(self, arrays: _Arrays, part: slice) -> inspect.BoundArguments:
        leaves = list(self._leaves)
        for place, array in arrays.values.items():
            leaves[place] = _tensor(array[part], self._rows[place].dtype)
        for place, mask in arrays.masks.items():
            backend.set_keras_mask(leaves[place], tf.constant(mask[part]))
        values = tf.nest.pack_sequence_as(list(self._arguments.values()), leaves)
        arguments: dict[str, Any] = dict(zip(self._arguments, values, strict=True))
        if arrays.weights is not None:
            dtype = tf.as_dtype(backend.floatx()) if self._weight is None else self._weight.dtype
            arguments[WEIGHT] = _tensor(arrays.weights[part], dtype)
        return self._bound(arguments)

    def _bound(self, arguments: dict[str, Any]) -> inspect.BoundArguments:
        # In the order of the signature, by which they are given.
        ordered = {name: arguments[name] for name in self._signature.parameters if name in arguments}
        return inspect.BoundArguments(self._signature, ordered)


def _rows_of(leaf: Any, kind: Kind) -> _Rows:
    if kind is not Kind.ROWS or not isinstance(leaf, tf.Tensor) or leaf.shape.rank is None:
        raise CannotBeDrawn("it is given something that has no row for each sample")
    if not (leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_bool):
        raise CannotBeDrawn(f"it is given tensors of dtype {leaf.dtype.name}")
    return _Rows.of(leaf)


def _tensor(array: Array, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tf.constant(np.round(array) if dtype.is_integer else array), dtype)


def _probabilities(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if len(shape) < 2 or shape[-1] == 1:
        return generator.uniform(0.02, 0.98, shape)
    powers = np.exp(generator.normal(0.0, 2.0, shape))
    return powers / powers.sum(axis=-1, keepdims=True)


def _logits(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.normal(0.0, 3.0, shape)


def _positive(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.uniform(0.2, 5.0, shape)


_PREDICTIONS: tuple[Style, ...] = (_probabilities, _logits, _positive)


def _label_kinds(labels: _Rows, predictions: _Rows) -> Sequence[str]:
    """The kinds of labels that shapes and dtypes allow."""
    classes = predictions.shape[-1] if predictions.shape else 1
    lacks_classes = labels.shape in (predictions.shape[:-1], (*predictions.shape[:-1], 1))
    if classes > 1 and predictions.shape and lacks_classes and labels.shape != predictions.shape:
        return ["classes"]
    kinds = ["one-hot"] if classes > 1 and labels.shape == predictions.shape else []
    return [*kinds, "yes or no", *([] if labels.dtype.is_bool else ["numbers"])]


def _labels(kind: str, generator: np.random.Generator, shape: tuple[int, ...], predictions: Array) -> Array:
    if kind in ("classes", "one-hot"):
        count = predictions.shape[-1]
        best = predictions.argmax(axis=-1)
        chosen = np.where(generator.random(best.shape) < 0.6, best, generator.integers(0, count, best.shape))
        return np.eye(count)[chosen] if kind == "one-hot" else chosen.reshape(shape).astype(np.float64)
    if kind == "yes or no":
        return (generator.random(shape) < 0.5).astype(np.float64)
    noise = generator.normal(0.0, 1.0, shape) * (generator.random(shape) < 0.8)
    return np.abs(predictions + noise) if shape == predictions.shape else generator.uniform(0.0, 4.0, shape)
