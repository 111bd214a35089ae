"""A variable with a copy on each replica as a number: `float(optimizer.learning_rate)`, `np.array(scalar)`.

TensorFlow can convert variables of one device, and not those of a strategy: `float` and `int` raise, a scalar is no
array where the strategy is in scope, and `if variable:` is taken whatever the value.
"""

from __future__ import annotations

import sys
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


def truth(_: Any) -> Callable[..., Any]:
    """Makes the method that `bool` and `if` call.

    TensorFlow's own code of strategies asks so whether it was given a variable.
    """

    def repaired(self: Any) -> bool:
        asks_for_one = sys._getframe(1).f_globals["__name__"].startswith("tensorflow.python.distribute.")
        return asks_for_one or bool(self.read_value())

    return repaired


def array(_: Any) -> Callable[..., Any]:
    """Makes the method that `np.array` calls, which gives a copy in any case."""

    def repaired(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.numpy(), dtype)

    return repaired
