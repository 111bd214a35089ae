"""Finds the files of a source tree that are the examples and their configs.

setup.py runs this file on its own: it imports nothing of tfdist.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDERS = ("configs", "examples")
"""The folders in a source tree that hold them. They stay side by side, as configs lead to data of examples."""

SUFFIXES = frozenset({".ipynb", ".json", ".md", ".npz", ".py", ".yaml"})
MADE_BY_RUNS = frozenset({"__pycache__", "runs", "shards"})
"""Folders that trying the examples leaves behind."""


def example_files(tree: Path) -> list[Path]:
    """The files of the examples and their configs, relative to `tree`, in the order of their names."""
    found = []
    for folder in FOLDERS:
        for place, inner, names in os.walk(tree / folder):
            inner[:] = [name for name in inner if name not in MADE_BY_RUNS and not name.startswith(".")]
            found += [Path(place, name) for name in names if Path(name).suffix in SUFFIXES]
    return sorted(path.relative_to(tree) for path in found)
