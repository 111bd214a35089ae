"""Workers without a launcher: a test speaks with each over its channel, as a launcher does."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helpers.ports import free_ports
from tests.helpers.warm_workers import warm
from tests.workers.launcher_processes import REPOSITORY
from tfdist.config import load_config
from tfdist.launch.environment import Assignment
from tfdist.launch.worker.config_handover import handed_over
from tfdist.rundir import RunDir, create_run_dir

Message = dict[str, Any]


class Tied:
    """A worker process and the launcher's end of its channel.

    Attributes:
        heard: Everything that it has said.
    """

    def __init__(self, assignment: Assignment, folder: Path) -> None:
        self.heard: list[Message] = []
        self.run = RunDir(assignment.run_dir)
        self.log = self.run.log_file(assignment.index, assignment.attempt)
        self._socket, theirs = socket.socketpair()
        self._rest = b""
        with theirs, self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tfdist.training.worker"],
                env=dataclasses.replace(assignment, channel_fd=theirs.fileno()).to_environ(
                    warm({**os.environ, "PYTHONPATH": str(REPOSITORY)})
                ),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[fd for fd in (theirs.fileno(), assignment.config_fd) if fd is not None],
                start_new_session=True,
            )

    def say(self, **message: Any) -> None:
        """Sends a message as a launcher does."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def next(self, matches: Callable[[Message], Any], timeout: float = 150) -> Message:
        """The next message that matches, heard from now on; what comes before is kept in `heard`."""
        deadline = time.monotonic() + timeout
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                self.heard.append(json.loads(line))
                if matches(self.heard[-1]):
                    return self.heard[-1]
                continue
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                data = b""
            assert data, f"the worker did not say it; it said {self.heard[-3:]}\n{self.text()}"
            self._rest += data

    def reply(self, key: str, timeout: float = 150) -> Any:
        """The value of the next message that has `key`."""
        return self.next(lambda message: key in message, timeout)[key]

    def beat(self, matches: Callable[[Message], Any], timeout: float = 150) -> Message:
        """The state in the next beat that matches."""
        return self.next(lambda message: "beat" in message and matches(message["beat"]), timeout)["beat"]

    def text(self) -> str:
        """What it has printed."""
        return self.log.read_text(errors="replace")

    def close(self) -> None:
        """Ends it and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._socket.close()


@contextlib.contextmanager
def tied_workers(folder: Path, script: str, count: int = 2, **options: Any) -> Iterator[list[Tied]]:
    """Starts `count` workers (1 or 2) that run `script`; afterwards none is left.

    Args:
        folder: Where the script and the run directory are written.
        script: A script's text, or a config's when `target_kind="config"` is among the options.
        count: Workers.
        **options: Fields of the `Assignment`.
    """
    kind = options.setdefault("target_kind", "script")
    target = folder / {"script": "script.py", "config": "config.yaml"}[kind]
    target.write_text(script)
    run = create_run_dir(folder / "run", name="tied")
    addresses = [f"localhost:{port}" for port in free_ports(2)] if count == 2 else [None]
    workers: list[Tied] = []
    try:
        with handed_over(load_config(target) if kind == "config" else None) as config_fd:
            for index, address in enumerate(addresses):
                assignment = Assignment(
                    run_dir=str(run.path),
                    seed=7,
                    index=index,
                    num_workers=count,
                    target=str(target),
                    local_rank=index,
                    local_size=count,
                    address=address,
                    cluster=None if count == 1 else ",".join(map(str, addresses)),
                    config_fd=config_fd,
                    **options,
                )
                workers.append(Tied(assignment, folder))
        yield workers
    finally:
        for worker in workers:
            worker.close()
