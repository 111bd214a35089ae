"""Takes one repair out of Keras."""

from __future__ import annotations

import pytest

from tfdist.keras_repairs.registry import repairs


def take_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the original function back until the test ends, or takes away what had none."""
    (repair,) = (repair for repair in repairs() if repair.path == path)
    found = getattr(repair.owner, repair.name)
    repaired = repair.function
    for owner in (repair.owner, *repair.also):
        if repaired.__wrapped__ is None:
            monkeypatch.delattr(owner, repair.name)
        else:
            original = property(repaired.__wrapped__) if isinstance(found, property) else repaired.__wrapped__
            monkeypatch.setattr(owner, repair.name, original)
