"""A function of Keras or TensorFlow, by the module or class that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KerasFunction:
    """A function of Keras or TensorFlow.

    Attributes:
        owner: The module or class that holds the function.
        name: Its attribute there.
    """

    owner: Any
    name: str

    @property
    def path(self) -> str:
        """The function's name, as messages give it."""
        return f"{getattr(self.owner, '__qualname__', self.owner.__name__)}.{self.name}"

    @property
    def package(self) -> str:
        """The package that holds the function: `keras` or `tensorflow`."""
        return str(getattr(self.owner, "__module__", self.owner.__name__)).partition(".")[0]

    @property
    def function(self) -> Any:
        """The function as it is now, of a property the one that reads it; None where there is none."""
        found = getattr(self.owner, self.name, None)
        return found.fget if isinstance(found, property) else found
