"""Takes one repair out of Keras."""

from __future__ import annotations

import pytest

from tfdist.keras_repairs.registry import repairs


def take_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts Keras's own function back until the test ends."""
    (repair,) = (repair for repair in repairs() if repair.path == path)
    repaired = getattr(repair.owner, repair.name)
    for owner in (repair.owner, *repair.also):
        monkeypatch.setattr(owner, repair.name, repaired.__wrapped__)
