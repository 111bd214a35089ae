"""Are two outcomes the same but for rounding?"""

from __future__ import annotations

from typing import Any

import numpy as np

RELATIVE = 1e-9
"""In float64, after three epochs: some hundred times what the order of the summands alone does."""


def assert_same(one: Any, several: Any, path: str = "outcome", relative: float = RELATIVE) -> None:
    """Fails with the place of the first number of `several` that is not that of `one`."""
    if isinstance(one, dict):
        assert one.keys() == several.keys(), path
        for key, value in one.items():
            assert_same(value, several[key], f"{path}.{key}", relative)
        return
    if isinstance(one, list) and one and isinstance(one[0], list | dict):
        assert len(one) == len(several), path
        for i, (a, b) in enumerate(zip(one, several, strict=True)):
            assert_same(a, b, f"{path}[{i}]", relative)
        return
    np.testing.assert_allclose(np.asarray(several), np.asarray(one), rtol=relative, atol=relative, err_msg=path)
