"""The classes that Keras exports."""

from __future__ import annotations

import inspect
from types import ModuleType

import keras

MODULES = {"layers": keras.layers, "losses": keras.losses, "metrics": keras.metrics, "optimizers": keras.optimizers}


def exported() -> dict[str, tuple[str, ...]]:
    """Each class by its first name, such as `layers.AveragePooling1D`, with its other names."""
    found: dict[str, tuple[str, ...]] = {}
    for prefix, module in MODULES.items():
        found |= {f"{prefix}.{names[0]}": tuple(names[1:]) for names in _names(module)}
    return found


def _names(module: ModuleType) -> list[list[str]]:
    by_class: dict[type, list[str]] = {}
    for name in sorted(dir(module)):
        if inspect.isclass(value := getattr(module, name)):
            by_class.setdefault(value, []).append(name)
    return list(by_class.values())
