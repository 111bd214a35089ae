from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.ssh.launches import REPOSITORY, Launches, MakeHosts
from tests.clusters.ssh.ssh_servers import ssh_servers, why_not
from tfdist.verify.hosts.namespace_hosts import NamespacesUnavailableError, namespace_hosts


@pytest.fixture
def ssh_hosts(tmp_path: Path) -> Iterator[MakeHosts]:
    """Makes hosts `h1`, `h2`... with an ssh server each, and one more to launch from; afterwards nothing is left."""
    if lacking := why_not():
        pytest.skip(lacking)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    with contextlib.ExitStack() as stack:

        def make(count: int, *, stand_in: bool = True) -> Launches:
            try:
                *hosts, here = stack.enter_context(namespace_hosts(count + 1))
            except NamespacesUnavailableError as error:
                pytest.skip(str(error))
            folders = [REPOSITORY / "tests/clusters/ssh/stand_in"] if stand_in else []
            path = ":".join(map(str, [*folders, REPOSITORY]))
            # Where an mpirun that is killed leaves its session.
            temporary = tmp_path / "tmp"
            temporary.mkdir()
            variables = {"TFDIST_TEST_MARK": mark, "PYTHONPATH": path, "TMPDIR": str(temporary)}
            servers = stack.enter_context(ssh_servers(hosts, tmp_path / "ssh", variables))
            work = tmp_path / "work"
            work.mkdir()
            (work / "train.py").touch()
            launches = Launches(servers, here, work, mark, variables)
            stack.callback(launches.close)
            return launches

        yield make
