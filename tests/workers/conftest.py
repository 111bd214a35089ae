from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports
from tests.workers import launcher_processes, namespace_hosts


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[launcher_processes.Launchers]:
    """Starts launchers with stand-in workers; afterwards none of their processes is left."""
    with launcher_processes.launchers(tmp_path) as started:
        yield started


@pytest.fixture
def hosts() -> Iterator[tuple[namespace_hosts.Host, namespace_hosts.Host]]:
    """Two hosts on one link, `10.91.0.1` and `10.91.0.2`."""
    yield from namespace_hosts.two_hosts()


@pytest.fixture
def two_ports() -> tuple[int, int]:
    """Two ports that nobody has now."""
    first, second = free_ports(2)
    return first, second
