"""What is in a row: how a tiny model around one class of Keras is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras

FLOAT64 = 1e-9
FLOAT32 = 2e-4
"""For classes that compute in float32 whatever is asked for."""


@dataclass(frozen=True)
class Row:
    """A class that is compared.

    Attributes:
        name: Its name in Keras, such as `layers.Dense`.
        make: Makes an instance; it is called once for each model.
        on: The kind of input of a layer, or of the targets of a loss or a metric; see `data`.
        call: How a layer is called with its input.
        is_trained_before: Whether a trained layer stands before it, so that its gradient matters.
        tolerance: Largest relative difference.
        is_apart: Whether it has a model of its own.
    """

    name: str
    make: Callable[[], Any]
    on: str = ""
    call: Callable[[Any, Any], Any] = field(default=lambda layer, x: layer(x))
    is_trained_before: bool = True
    tolerance: float = FLOAT64
    is_apart: bool = False

    @property
    def section(self) -> str:
        """The module of the class: `layers`, `losses`, `metrics` or `optimizers`."""
        return self.name.split(".")[0]

    @property
    def key(self) -> str:
        """The name of its layers and outputs in a model."""
        return self.name.split(".")[1]


@dataclass(frozen=True)
class NotRun:
    """A class that is not compared.

    Attributes:
        name: Its name in Keras.
        is_refused: Whether tfdist refuses it; otherwise there is nothing to compare.
        why: For the table.
    """

    name: str
    why: str
    is_refused: bool = False


def layer(name: str, on: str, *args: Any, **options: Any) -> Row:
    """The row of a layer that is called with one tensor."""
    tolerance = FLOAT32 if options.get("dtype") == "float32" else FLOAT64
    return Row(f"layers.{name}", lambda: getattr(keras.layers, name)(*args, **options), on, tolerance=tolerance)
