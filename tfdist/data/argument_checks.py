"""Arguments of the public functions that are of the wrong type: an error rather than what Python would make of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdist.errors import UsageError


def integer(name: str, value: Any, at_least: int) -> int:
    """The value as an integer.

    Raises:
        UsageError: It is no integer, also of numpy, or smaller.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise UsageError(f"{name}: expected an integer of {at_least} or more. Received: {value!r}")
    return int(value)


def boolean(name: str, value: Any, otherwise: str = "") -> bool:
    """The value as a bool.

    Args:
        name: The argument's.
        value: What was given.
        otherwise: What may have been meant, in a sentence.

    Raises:
        UsageError: It is no bool, also of numpy.
    """
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name}: expected True or False. Received: {value!r}. {otherwise}".rstrip())
    return bool(value)
