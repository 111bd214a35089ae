"""A variable with a copy on each replica as a number: `float(optimizer.learning_rate)`, `np.array(scalar)`.

TensorFlow can convert variables of one device, and not those of a strategy: `float` and `int` raise, and a scalar is no
array where the strategy is in scope. `bool` is True whatever the value, and has to be: TensorFlow's own code asks so
whether it was given a variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def converting(convert: Callable[[Any], Any]) -> Callable[[Any], Callable[..., Any]]:
    """Makes the method that `convert`, such as `float`, calls: of the value that the variable has outside of replicas.

    In a graph there is no value, and TensorFlow says so, as it does for a variable of one device.
    """

    def make(_: Any) -> Callable[..., Any]:
        def repaired(self: Any) -> Any:
            return convert(self.read_value())

        return repaired

    return make


def array(_: Any) -> Callable[..., Any]:
    """Makes the method that `np.array` calls, which gives a copy in any case."""

    def repaired(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.numpy(), dtype)

    return repaired
