"""`tfdist launch` as a user runs it, on one of several hosts, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.clusters.ssh.ssh_servers import SshServers
from tests.helpers.processes import command_line, processes_with
from tests.helpers.waiting import until
from tfdist.verify.hosts.namespace_hosts import NamespaceHost

REPOSITORY = Path(__file__).resolve().parents[3]


class MakeHosts(Protocol):
    """Makes so many hosts, whose workers are stand-ins or train."""

    def __call__(self, count: int, *, stand_in: bool = True) -> Launches: ...


@dataclass
class Launch:
    """A command that runs.

    Attributes:
        process: Its process.
    """

    process: subprocess.Popen[str]
    out: str = ""
    err: str = ""

    def end(self, timeout: float = 150) -> int:
        """Its exit code."""
        self.out, self.err = self.process.communicate(timeout=timeout)
        return self.process.returncode


@dataclass
class Launches:
    """Runs `tfdist` on a host that has ssh to others.

    Attributes:
        servers: The others.
        here: The host that launches.
        folder: The working directory of all, as one that hosts share.
        mark: In the environment of all that is started.
        variables: More of that environment.
    """

    servers: SshServers
    here: NamespaceHost
    folder: Path
    mark: str
    variables: Mapping[str, str]
    running: list[Launch] = field(default_factory=list)

    @property
    def hosts(self) -> str:
        """As `--hosts` takes them."""
        return ",".join(self.servers.hosts)

    def start(self, *arguments: object, on: NamespaceHost | None = None, cwd: Path | None = None) -> Launch:
        """Starts `tfdist ARGUMENTS` on a host."""
        process = subprocess.Popen(
            [*(on or self.here).prefix, sys.executable, "-m", "tfdist", *map(str, arguments)],
            cwd=cwd or self.folder,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.running.append(Launch(process))
        return self.running[-1]

    def launch(self, *arguments: object, hosts: str | None = None) -> Launch:
        """Starts `tfdist launch` over the test's ssh; the last arguments are the target and its own."""
        ssh = f"ssh -F {self.servers.config}"
        return self.start("launch", "--ssh", ssh, "--hosts", hosts or self.hosts, *arguments)

    def run(self) -> Path:
        """The only run directory."""
        (found,) = (path for path in (self.folder / "runs").iterdir() if path.is_dir())
        return found

    def on_hosts(self) -> list[int]:
        """What runs, launching commands and servers left out."""
        own = {launch.process.pid for launch in self.running}
        return [pid for pid in processes_with(f"TFDIST_TEST_MARK={self.mark}") if pid not in own]

    def close(self) -> None:
        """Ends what is left of a test that failed, and fails where a command that ended has left something."""
        left: list[int] = []
        if all(launch.process.poll() is not None for launch in self.running):
            with contextlib.suppress(AssertionError):
                until(lambda: not self.on_hosts(), timeout=20)
            left = self.on_hosts()
        commands = {pid: command_line(pid) for pid in left}
        for launch in self.running:
            if launch.process.poll() is None:
                launch.process.kill()
                launch.process.communicate()
        for pid in self.on_hosts():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes were left: {commands}"
