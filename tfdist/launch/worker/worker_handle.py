"""What the group of workers needs of one: `WorkerProcess` has it, and tests have fakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tfdist.net.line_socket import Message


class Worker(Protocol):
    """What the group needs of `WorkerProcess`.

    `told` is the error record of a worker that could not write its error file.
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
    def is_stopped(self) -> bool: ...
    def dump_natively(self) -> None: ...
    def last_lines(self) -> tuple[str, ...]: ...
    def close(self) -> None: ...


def process_facts(worker: Worker) -> dict[str, Any]:
    """What a failure tells of the worker's process."""
    return {
        "address": worker.address,
        "pid": worker.pid,
        "log": str(worker.log),
        "last_lines": worker.last_lines(),
    }
