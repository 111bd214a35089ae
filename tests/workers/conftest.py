from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.ports import free_ports
from tests.workers import launcher_processes
from tfdist.verify.hosts.namespace_hosts import NamespaceHost, NamespacesUnavailableError, namespace_hosts


@pytest.fixture
def launchers(tmp_path: Path) -> Iterator[launcher_processes.Launchers]:
    """Starts launchers with stand-in workers; afterwards none of their processes is left."""
    with launcher_processes.launchers(tmp_path) as started:
        yield started


@pytest.fixture
def hosts() -> Iterator[tuple[NamespaceHost, NamespaceHost]]:
    """Two hosts on one switch, `10.91.0.1` and `10.91.0.2`."""
    with contextlib.ExitStack() as stack:
        try:
            first, second = stack.enter_context(namespace_hosts(2))
        except NamespacesUnavailableError as error:
            pytest.skip(str(error))
        yield first, second


@pytest.fixture
def three_hosts() -> Iterator[tuple[NamespaceHost, ...]]:
    """Three hosts on one switch."""
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(namespace_hosts(3))
        except NamespacesUnavailableError as error:
            pytest.skip(str(error))
        yield hosts


@pytest.fixture
def two_ports() -> tuple[int, int]:
    """Two ports that nobody has now."""
    first, second = free_ports(2)
    return first, second
