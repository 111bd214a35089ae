from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.workers import launching


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[launching.Launchers]:
    """Starts launchers with stand-in workers; afterwards none of their processes is left."""
    with launching.launchers(tmp_path) as started:
        yield started


@pytest.fixture
def two_ports() -> tuple[int, int]:
    """Two ports that nobody has now."""
    first, second = free_ports(2)
    return first, second
