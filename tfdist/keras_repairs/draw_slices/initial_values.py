"""The first values of a weight that workers share, of which each makes its shard: the numbers that one device draws.

Numbers of Keras's random initializers are functions of the seed and of their places (see `draw_slice`), so that they
are made for some rows alone. What is drawn beside a shard is bounded.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.stored_values import ValuesInParts
from tfdist.keras_repairs.draw_slices.draw_scope import drawing_rows
from tfdist.keras_repairs.draw_slices.draw_slice import DrawSlice
from tfdist.runtime.collectives.array_all_gather import as_array, empty_for_tensor
from tfdist.runtime.collectives.chief_broadcast import first_values_of_all

_initializers = keras.initializers

_BY_PLACE = frozenset(
    getattr(_initializers, name)
    for name in (
        "RandomUniform",
        "RandomNormal",
        "TruncatedNormal",
        "VarianceScaling",
        "GlorotUniform",
        "GlorotNormal",
        "HeUniform",
        "HeNormal",
        "LecunUniform",
        "LecunNormal",
    )
)
"""They draw once, in the shape of the variable, and change each number by itself."""

_PIECE = 1 << 22
"""Elements that are drawn at once. A draw makes some arrays of their size."""


class InitialValues(ValuesInParts):
    """What an initializer of Keras gives a weight, of which parts are made where they are read, outside of functions.

    Args:
        initializer: One that `are_made_in_parts`.
        shape: Of the weight.
        dtype: Of the weight.
        seed: In place of the initializer's; of one without a seed it counts for nothing.

    Example:
        ```python
        values = InitialValues(keras.initializers.GlorotUniform(seed=1), (8, 4), "float32", seed=1)
        values[2:4]  # Rows 2 and 3 of what the initializer gives for the shape (8, 4).
        ```
    """

    def __init__(self, initializer: Any, shape: tuple[int, ...], dtype: str, seed: int) -> None:
        self.shape, self.dtype = shape, tf.as_dtype(dtype).as_numpy_dtype
        self._initializer, self._dtype = initializer, dtype
        if type(initializer) in _BY_PLACE:
            self._initializer = copy.copy(initializer)
            self._initializer.seed = seed

    def __getitem__(self, index: Any) -> NDArray:
        """The values in a part, which slices along some of the first axes say."""
        given = index if isinstance(index, tuple) else (index,)
        bounds = [part.indices(size) for part, size in zip(given, self.shape, strict=False)]
        inner = (slice(None), *given[1:])
        first, last, _ = bounds[0] if bounds else (0, self.shape[0], 1)
        sizes = [max(0, stop - start) for start, stop, _ in bounds]
        shape = (*sizes, *self.shape[len(sizes) :])
        found = empty_for_tensor(math.prod(shape), np.dtype(self.dtype)).reshape(shape)
        if not found.size:
            return found
        rows = max(1, _PIECE * self.shape[0] // math.prod(self.shape))
        for start in range(first, last, rows):
            stop = min(start + rows, last)
            found[start - first : stop - first] = self._rows(start, stop)[inner]
        return found

    def _rows(self, first: int, last: int) -> NDArray:
        own = (last - first, *self.shape[1:])
        if type(self._initializer) not in _BY_PLACE:
            return as_array(tf.convert_to_tensor(self._initializer(own, dtype=self._dtype)))
        begin, total = (tf.constant(rows, tf.int64) for rows in (first, self.shape[0]))
        with drawing_rows(DrawSlice(own, 0, begin, total)):
            return as_array(tf.convert_to_tensor(self._initializer(self.shape, dtype=self._dtype)))


def agreed_values(initializer: Any, shape: tuple[int, ...], dtype: str, name: str) -> InitialValues | None:
    """The first values of a weight, of the chief's seed; all workers call this together, outside of functions.

    Args:
        initializer: Of Keras, or a callable that takes a shape and a dtype; not the same object on all workers.
        shape: Of the weight.
        dtype: Of the weight.
        name: Of the weight, for messages.

    Returns:
        None where the initializer cannot make a part alone, and where it is another one on another worker.

    Raises:
        UsageError: The shape or the dtype is another one on another worker.
    """
    seed = getattr(initializer, "seed", None)
    how = f"{seed if isinstance(seed, int) else 0} {_description(initializer, shape)}"
    said = first_values_of_all(how, dtype, shape, name, tf.distribute.get_strategy())
    seeds, descriptions = zip(*(each.split(" ", 1) for each in said), strict=True)
    if not descriptions[0] or len(set(descriptions)) > 1:
        return None
    return InitialValues(initializer, shape, dtype, int(seeds[0]))


def _description(initializer: Any, shape: tuple[int, ...]) -> str:
    """The description of an initializer but for its seed; empty where it makes no parts."""
    if not are_made_in_parts(initializer, shape):
        return ""
    config = {name: value for name, value in initializer.get_config().items() if name != "seed"}
    return f"{type(initializer).__name__} {sorted(config.items())}"


def are_made_in_parts(initializer: Any, shape: tuple[int, ...]) -> bool:
    """Returns whether what an initializer gives a weight of some shape can be made in parts."""
    if type(initializer) in _BY_PLACE:
        return len(shape) > 0 and isinstance(initializer.seed, int)
    is_alike = type(initializer) in (_initializers.Zeros, _initializers.Ones)
    is_constant = type(initializer) is _initializers.Constant and np.ndim(initializer.value) == 0
    return len(shape) > 0 and (is_alike or is_constant)
