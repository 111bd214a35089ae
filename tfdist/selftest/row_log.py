"""The launcher's order to the rows' workers, and what these note in a file while they run; free of TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RowOrder:
    """An order to a job: which rows it runs, and where.

    Attributes:
        folder: Where workers note what they did; it exists.
        rows: Names, in order.
        saved: A model that an earlier job has saved; None for none.
    """

    folder: str
    rows: tuple[str, ...]
    saved: str | None = None

    def to_argument(self) -> str:
        """As the one argument of the module that runs rows."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, argument: str) -> RowOrder:
        """The order that `to_argument` wrote."""
        fields = json.loads(argument)
        return cls(**{**fields, "rows": tuple(fields["rows"])})


@dataclass(frozen=True)
class RowDone:
    """A row that a worker has finished.

    Attributes:
        name: Its name.
        fits: Numbers of its `fit`s among those of the process.
        seconds: How long it took.
        found: What a row that measures has found, in JSON's types.
    """

    name: str
    fits: range
    seconds: float
    found: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RowsRun:
    """The progress of a worker: how far it came.

    Attributes:
        done: The rows that it finished.
        begun: The row that it was in when it ended; None where it was in none.
    """

    done: tuple[RowDone, ...] = ()
    begun: str | None = None


def log_file(folder: Path, worker: int) -> Path:
    """The notes of a worker."""
    return folder / f"rows-{worker}.jsonl"


def saved_model(folder: Path) -> Path:
    """The model that a row of the job saves."""
    return folder / "saved.keras"


def begin_line(name: str) -> str:
    """The line of a row that begins."""
    return json.dumps({"begun": name}) + "\n"


def done_line(done: RowDone) -> str:
    """The line of a row that is done."""
    return json.dumps({**vars(done), "fits": [done.fits.start, done.fits.stop]}) + "\n"


def read_log(file: Path) -> RowsRun:
    """Reads a worker's notes; nothing where it came to no row."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    # The last one may have been cut when the process was killed.
    return _understood([json.loads(line) for line in lines if line.endswith("\n")])


def _understood(entries: Sequence[Mapping[str, Any]]) -> RowsRun:
    done = tuple(RowDone(**{**entry, "fits": range(*entry["fits"])}) for entry in entries if "name" in entry)
    begun = entries[-1].get("begun") if entries else None
    return RowsRun(done, begun)
