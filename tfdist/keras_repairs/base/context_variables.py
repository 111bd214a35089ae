"""Context variables that hold for the code of a `with` block."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypeVar

Value = TypeVar("Value")


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[Value], value: Value) -> Iterator[None]:
    """Sets a context variable for the code inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
