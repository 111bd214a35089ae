"""Values attached to objects of Keras: in one attribute an object, each kind under one name and with one type."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

_ATTRIBUTE = "_tfdist"
_NOTHING: Mapping[str, Any] = {}
_LOCK = threading.RLock()
"""Reentrant: what is collected while it is held may run code that attaches values, too."""


def is_of_tfdist(attribute: str) -> bool:
    """Returns whether an attribute of an object is one that tfdist has set, by its name."""
    return attribute == _ATTRIBUTE or attribute.startswith(f"{_ATTRIBUTE}_")


@dataclass(frozen=True)
class AttachedValue(Generic[Value]):
    """A value that objects of Keras carry, past Keras, which would track and save what is in it.

    All values of an object are in one attribute, and in no weak table: a value may refer to its object, which a table
    would then keep for ever; objects need not be hashable; and a copy of an object carries the values of the original,
    as they were when it was copied.

    Attributes:
        name: What the value is, unique among attached values.
    """

    name: str

    def get(self, owner: Any) -> Value | None:
        """The value of `owner`; None where it has none."""
        return getattr(owner, _ATTRIBUTE, _NOTHING).get(self.name)

    def set(self, owner: Any, value: Value | None) -> None:
        """Attaches `value` to `owner`."""
        with _LOCK:
            # A new record, as a copy of the object has the same one.
            object.__setattr__(owner, _ATTRIBUTE, {**getattr(owner, _ATTRIBUTE, _NOTHING), self.name: value})

    def get_or_make(self, owner: Any, make: Callable[[], Value]) -> Value:
        """The value of `owner`; where it has none, the one that `make` returns, which it has from now on."""
        value = self.get(owner)
        if value is None:
            value = make()
            self.set(owner, value)
        return value
