"""Checks of the public functions' arguments: a wrong type is an error, whatever Python would make of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdist.errors import UsageError


def integer(name: str, value: Any, at_least: int) -> int:
    """Returns the value as an integer.

    Raises:
        UsageError: It is not an integer, of Python or NumPy, or is smaller than `at_least`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise UsageError(f"{name}: expected an integer of {at_least} or more. Received: {value!r}")
    return int(value)


def boolean(name: str, value: Any, otherwise: str = "") -> bool:
    """Returns the value as a bool.

    Args:
        name: The name of the argument.
        value: What was given.
        otherwise: A sentence that ends the error: what may have been meant.

    Raises:
        UsageError: It is not a bool, of Python or NumPy.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name}: expected True or False. Received: {value!r}. {otherwise}".rstrip())
    return bool(value)
