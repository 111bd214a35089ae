from __future__ import annotations

import pytest

from tests.unit.training.supervision.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
