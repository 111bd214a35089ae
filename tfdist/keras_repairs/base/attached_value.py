"""Values that the repairs attach to objects of Keras, each kind under one name and with one type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class AttachedValue(Generic[Value]):
    """A value that objects of Keras carry, past Keras, which would track and save what is in it.

    It is an attribute, and no entry of a weak table: a value may refer to its object, which a table would then keep for
    ever; objects need not be hashable; and a copy of an object carries the value of the original.

    Attributes:
        name: What the value is, unique among attached values.
    """

    name: str

    def get(self, owner: Any) -> Value | None:
        """The value of `owner`; None where it has none."""
        return getattr(owner, self._attribute, None)

    def set(self, owner: Any, value: Value | None) -> None:
        """Attaches `value` to `owner`."""
        object.__setattr__(owner, self._attribute, value)

    def get_or_make(self, owner: Any, make: Callable[[], Value]) -> Value:
        """The value of `owner`; where it has none, the one that `make` returns, which it has from now on."""
        value = self.get(owner)
        if value is None:
            value = make()
            self.set(owner, value)
        return value

    @property
    def _attribute(self) -> str:
        return f"_tfdist_{self.name}"
