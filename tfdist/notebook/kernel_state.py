"""Kernel state: what else than its globals a function of a notebook needs to mean the same in a worker."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class KernelState:
    """What a worker takes over before it loads the function.

    Attributes:
        sources: The cells' source texts by the names that their code has for files. AutoGraph reads them, and
            tracebacks show them.
        keras_settings: Keras's global settings by name; empty where the notebook has not loaded Keras.
    """

    sources: dict[str, list[str]] = field(default_factory=dict)
    keras_settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_this_process(cls) -> KernelState:
        """The state of the process that calls this."""
        return cls(_cells(), _keras_settings())

    def take_over(self) -> None:
        """Makes it the state of the process that calls this."""
        for name, lines in self.sources.items():
            # Without a time of its file, Python does not look whether that has changed.
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
        if self.keras_settings:
            _set_keras(self.keras_settings)


def registered_objects() -> dict[str, Any]:
    """The notebook's own classes and functions by the names under which Keras knows them, to load saved models."""
    if "keras" not in sys.modules:
        return {}
    import keras

    known = keras.saving.get_custom_objects()
    return {name: value for name, value in known.items() if getattr(value, "__module__", "") == "__main__"}


def register_objects(objects: dict[str, Any]) -> None:
    """Makes them known to Keras under these names."""
    if not objects:
        return
    import keras

    for name, value in objects.items():
        package, separator, own = name.partition(">")
        if separator:
            keras.saving.register_keras_serializable(package, own)(value)
        else:
            keras.saving.get_custom_objects()[name] = value


def _cells() -> dict[str, list[str]]:
    """What was typed, not read from a file: only that has no time of its file in the cache."""
    typed = ((name, entry) for name, entry in linecache.cache.items() if len(entry) == 4 and entry[1] is None)
    return {name: list(entry[2]) for name, entry in typed if not os.path.exists(name)}


def _keras_settings() -> dict[str, Any]:
    if "keras" not in sys.modules:
        return {}
    import keras

    return {
        "floatx": keras.config.floatx(),
        "epsilon": keras.config.epsilon(),
        "image_data_format": keras.config.image_data_format(),
        "dtype_policy": keras.dtype_policies.serialize(keras.config.dtype_policy()),
    }


def _set_keras(settings: dict[str, Any]) -> None:
    import keras

    keras.config.set_floatx(settings["floatx"])
    keras.config.set_epsilon(settings["epsilon"])
    keras.config.set_image_data_format(settings["image_data_format"])
    keras.config.set_dtype_policy(keras.dtype_policies.deserialize(settings["dtype_policy"]))
