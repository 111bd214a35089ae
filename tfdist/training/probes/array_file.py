"""A JSON object and NumPy arrays in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfdist.rundir import atomic_files

_TEXT = "text"


def write(path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Makes or replaces a file.

    Args:
        path: The file.
        content: In JSON's types.
        arrays: By name; none is called "text".

    Raises:
        RunDirError: It cannot be written.
    """
    named: dict[str, Any] = {_TEXT: np.frombuffer(json.dumps(content).encode(), np.uint8), **arrays}
    with atomic_files.replacing(path, durable=False) as temporary:
        np.savez(temporary, **named)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """The content and the arrays that `write` was given; None where there is no file."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(arrays.pop(_TEXT).tobytes()), arrays
