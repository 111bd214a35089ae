"""Waiting for what gives no sign of itself when it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], timeout: float = 150, otherwise: str = "it did not come") -> Any:
    """Waits until the condition holds, and returns what it gave.

    Raises:
        AssertionError: `otherwise`, when it does not hold after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return result
