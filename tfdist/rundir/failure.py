"""The failure that ended a run, as its launcher left it for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir.json_record import JsonRecord, is_finite


@dataclass(frozen=True)
class FailureRecord(JsonRecord):
    """What a reader wants of the run directory's `failure_file`; the file has more.

    Attributes:
        index: The worker that failed first.
        host: Its machine's name.
        time: When, in seconds since 1970 (UTC).
        kind: What kind of failure, such as `exception`, `signal` or `hang`.
        message: What happened.
        pid: Its process id; None when it had none.
        exit_code: What the job exits with.
        type: The exception's class, or the signal's name; empty without either.
        epoch: The epoch that it was in, from 0; None when it never said.
        step: Batches trained since the run began; None when it never said.
        log: Path of its log on its machine; empty without one.

    Raises:
        ValueError: A value has another type.
    """

    index: int
    host: str
    time: float
    kind: str
    message: str
    pid: int | None = None
    exit_code: int | None = None
    type: str = ""
    epoch: int | None = None
    step: int | None = None
    log: str = ""

    def __post_init__(self) -> None:
        texts = (self.host, self.kind, self.message, self.type, self.log)
        known = [value for value in (self.pid, self.exit_code, self.epoch, self.step) if value is not None]
        is_sound = all(isinstance(text, str) for text in texts) and is_finite(self.time)
        if not is_sound or not all(isinstance(number, int) for number in (self.index, *known)):
            raise ValueError("expected texts for what happened and numbers for where")

    @property
    def what(self) -> str:
        """What happened, with the exception's class, in one line."""
        said = f"{self.type}: {self.message}" if self.kind == "exception" and self.type else self.message
        return " ".join(said.split())

    @property
    def who(self) -> str:
        """The worker, its place and its process."""
        process = "" if self.pid is None else f", pid {self.pid}"
        return f"worker {self.index} ({self.host}{process})"

    @property
    def when(self) -> str:
        """Where in the training it was, in words; empty when it never said."""
        return "" if self.step is None else f"in epoch {(self.epoch or 0) + 1} after step {self.step}"
