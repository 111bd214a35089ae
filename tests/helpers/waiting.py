"""Waiting for what gives no sign of itself when it comes, and how much longer that may take on a slow machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 3.0
"""Times that what is waited for may take on a machine with slow or busy processors. What a test says is for another."""


def until(condition: Callable[[], Any], timeout: float = 60, otherwise: str = "it did not come") -> Any:
    """Waits until the condition holds, and returns what it gave.

    Raises:
        AssertionError: `otherwise`, when it does not hold after `timeout` seconds, times `PATIENCE`.
    """
    deadline = time.monotonic() + timeout * PATIENCE
    while not (result := condition()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return result
