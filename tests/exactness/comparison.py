"""Are two outcomes the same but for rounding?"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.exactness.table import CASES, FLOAT64


def assert_same_case(name: str, one: Any, several: Any, path: str = "outcome") -> None:
    """Fails with the place of the first number of a case's outcome on several replicas that is not that on one."""
    precision = CASES[name].precision
    assert one.keys() == several.keys(), path
    for part in one:
        relative = precision.weights if part in ("weights", "predict") else precision.losses
        assert_same(one[part], several[part], f"{path}.{part}", relative)


def assert_same(one: Any, several: Any, path: str = "outcome", relative: float = FLOAT64.losses) -> None:
    """Fails with the place of the first number of `several` that is not that of `one`."""
    if isinstance(one, dict):
        assert one.keys() == several.keys(), path
        for key, value in one.items():
            assert_same(value, several[key], f"{path}.{key}", relative)
        return
    if isinstance(one, list) and any(isinstance(part, list | dict) for part in one):
        assert len(one) == len(several), path
        for i, (a, b) in enumerate(zip(one, several, strict=True)):
            assert_same(a, b, f"{path}[{i}]", relative)
        return
    np.testing.assert_allclose(np.asarray(several), np.asarray(one), rtol=relative, atol=relative, err_msg=path)
