"""Repairs with hooks of a test's own."""

from __future__ import annotations

import pytest

from tfdist.keras_repairs.registry import repairs
from tfdist.keras_repairs.repair import RepairHooks


def put_in(hooks: RepairHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts repairs that are made anew, with these hooks, in the place of the process's own until the test ends."""
    for repair in repairs(hooks):
        # Of a function that the owner does not have there is no original.
        present = repair.function
        repaired = repair.make(getattr(present, "__wrapped__", present))
        is_property = isinstance(getattr(repair.owner, repair.name, None), property)
        monkeypatch.setattr(
            repair.owner, repair.name, property(repaired) if is_property else repaired, raising=False
        )
