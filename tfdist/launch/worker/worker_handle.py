"""The interface of a worker that its worker group uses: `WorkerProcess` implements it, and so do fakes in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tfdist.launch.worker.process_sample import ProcessSample
from tfdist.net.line_socket import Message


class Worker(Protocol):
    """A worker, as its group uses it. `WorkerProcess` documents the methods.

    Attributes:
        told: The error that the worker sent because it could not write its error file; None without one.
    """

    index: int
    attempt: int
    address: str | None
    log: Path
    ended_by_launcher: bool
    told: dict[str, Any] | None

    @property
    def pid(self) -> int: ...
    def fileno(self) -> int: ...
    def receive(self) -> list[Message]: ...
    def send(self, message: Message) -> None: ...
    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def sample(self) -> ProcessSample | None: ...
    def dump_natively(self) -> None: ...
    def last_lines(self) -> tuple[str, ...]: ...
    def close(self) -> None: ...


def process_facts(worker: Worker) -> dict[str, Any]:
    """The fields of a `Failure` that describe the worker's process."""
    return {
        "address": worker.address,
        "pid": worker.pid,
        "log": str(worker.log),
        "last_lines": worker.last_lines(),
    }
