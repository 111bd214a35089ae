"""What tests say of themselves."""

from __future__ import annotations

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """The parameters of one case that runs with TFDIST_SLOW_TESTS=1 only: another that does not is much like it."""
    return pytest.param(*values, marks=pytest.mark.slow)


def named(value: Any) -> str:
    """The id of a parameter: of a tuple, its parts in a row."""
    parts = value if isinstance(value, tuple) else (value,)
    return " ".join(named(part) if isinstance(part, tuple) else str(part) for part in parts).strip()
