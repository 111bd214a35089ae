"""Context variables that hold for the code of a `with` block."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value")
Record = TypeVar("Record", bound="DataclassInstance")


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[Value], value: Value) -> Iterator[None]:
    """Sets a context variable for the code inside."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def changing(variable: contextvars.ContextVar[Record], **fields: Any) -> Iterator[None]:
    """Sets some fields of the frozen record in a context variable for the code inside; the others remain."""
    with setting(variable, dataclasses.replace(variable.get(), **fields)):
        yield
