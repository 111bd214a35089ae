"""The table of wrong sharings: small faults in how replicas share out a step, which the check of a first step stops.

Each is made where replicas share out a step, and not where one of them runs it whole, as one device does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import current_step, is_tried_out, replica_count, replica_id

Patch = pytest.MonkeyPatch
Function = Callable[..., Any]


@dataclass(frozen=True)
class WrongSharing:
    """A fault, by the name of the function that makes it.

    Attributes:
        name: What goes wrong.
        model: The model that shows it, see `shared_models`.
        make: Makes it until the test ends.
    """

    name: str
    model: str
    make: Callable[[Patch], None]


WRONG: list[WrongSharing] = []


def wrong(model: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Registers a fault under the name of its function."""

    def register(make: Callable[[Patch], None]) -> Callable[[Patch], None]:
        WRONG.append(WrongSharing(make.__name__, model, make))
        return make

    return register


def shared(patch: Patch, owner: Any, name: str, changed: Function) -> None:
    """Calls `changed(original, ...)` in the place of a function in steps that replicas share out."""
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if current_step() is None or is_tried_out():
            return original(*args, **kwargs)
        return changed(original, *args, **kwargs)

    patch.setattr(owner, name, call)


def is_last() -> bool:
    """Whether the code is that of the last replica."""
    return int(tf.get_static_value(replica_id())) == replica_count() - 1


def is_first() -> bool:
    """Whether the code is that of the first replica."""
    return int(tf.get_static_value(replica_id())) == 0
