"""A variable with a copy on each replica as a number: `float(model.optimizer.learning_rate)`, `if flag:`.

TensorFlow can convert variables of one device, and not those of a strategy: `float` and `int` raise, and `bool` is
True whatever the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def converting(convert: Callable[[Any], Any]) -> Callable[[Any], Callable[..., Any]]:
    """Makes the method that `convert`, such as `float`, calls: of the value that the variable has outside of replicas.

    In a graph there is no value, and TensorFlow says so, as it does for a variable of one device.
    """

    def make(_: Any) -> Callable[..., Any]:
        def repaired(self: Any) -> Any:
            return convert(self.read_value())

        return repaired

    return make
