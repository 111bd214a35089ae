"""Finds the examples of this installation."""

from __future__ import annotations

from pathlib import Path

from tfdist.errors import UsageError
from tfdist.examples.example_files import FOLDERS

IN_WHEEL = Path(__file__).parent / "files"
SOURCE_TREE = Path(__file__).parents[2]


def examples_root() -> Path:
    """The directory that holds `configs/` and `examples/`: in the wheel's package, or the source tree.

    Raises:
        UsageError: The installation has none, as after a copy of the package's modules alone.
    """
    for root in (IN_WHEEL, SOURCE_TREE):
        if all((root / folder).is_dir() for folder in FOLDERS):
            return root
    raise UsageError(
        f"This installation of tfdist has no examples. Expected {' and '.join(FOLDERS)} in {IN_WHEEL} (a wheel) or in "
        f"{SOURCE_TREE} (a source tree). Install it again: pip install --force-reinstall --no-deps tfdist"
    )
