"""Which versions compute here."""

from __future__ import annotations

import importlib.metadata
import platform

_PACKAGES = ("tfdist", "tensorflow", "keras", "numpy")


def versions() -> dict[str, str]:
    """Package -> version of what computes here, and Python's own."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in _PACKAGES}
