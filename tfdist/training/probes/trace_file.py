"""Files with the trace of a worker, which outlive a kill; they take NumPy alone, so that the launcher can read them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tfdist.training.probes import array_file


@dataclass(frozen=True)
class TracedStart:
    """The beginning of an attempt.

    Attributes:
        workers: How many take part.
    """

    workers: int


@dataclass(frozen=True)
class TracedSteps:
    """One execution of training steps.

    Attributes:
        step: Steps of the run that are done with it, over all its attempts.
        steps: How many of them it has run.
        data: The fingerprint of their samples, over all replicas.
        saved: Complete checkpoints that the attempt had made by then, each at a later step than the ones before.
    """

    step: int
    steps: int
    data: float
    saved: int


@dataclass(frozen=True)
class TracedEpoch:
    """The end of an epoch.

    Attributes:
        step: Steps of the run that are done.
        epoch: Its number in its `fit`, from 0.
        logs: Loss and metrics, with those of the validation.
    """

    step: int
    epoch: int
    logs: Mapping[str, float]


@dataclass(frozen=True)
class Trace:
    """One worker's part of one attempt.

    Attributes:
        steps: In order.
        epochs: In order.
        workers: How many workers the attempt has; None where this one was killed before it could say so.
    """

    steps: tuple[TracedSteps, ...] = ()
    epochs: tuple[TracedEpoch, ...] = ()
    workers: int | None = None

    @property
    def begun(self) -> int | None:
        """Steps of the run that were done before the attempt; None where it had none of its own."""
        return self.steps[0].step - self.steps[0].steps if self.steps else None

    @property
    def ended(self) -> int | None:
        """Steps of the run that were done with its last one."""
        return self.steps[-1].step if self.steps else None

    @classmethod
    def read(cls, path: Path) -> Trace:
        """Reads what a worker of this version wrote; empty where it was killed before its first step."""
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # The last one may have been cut by the kill.
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        steps = tuple(TracedSteps(**entry) for entry in entries if "data" in entry)
        workers = next((entry["workers"] for entry in entries if "workers" in entry), None)
        return cls(steps, tuple(TracedEpoch(**entry) for entry in entries if "logs" in entry), workers)


def write_line(file: TextIO, entry: TracedStart | TracedSteps | TracedEpoch) -> None:
    """Appends an entry to an open file that is flushed at every line, so that it outlives the process."""
    file.write(json.dumps(dataclasses.asdict(entry)) + "\n")


@dataclass(frozen=True)
class TracedEnd:
    """The weights and the optimizer's state at the end of a `fit`, on one worker.

    Attributes:
        digests: Path -> a checksum of all bytes.
        elements: Path -> some of the elements, 1-D, spread evenly.
    """

    digests: Mapping[str, str]
    elements: Mapping[str, np.ndarray]

    def write(self, path: Path) -> None:
        """Makes or replaces the file. Raises `RunDirError` when it cannot be written."""
        arrays = {str(place): array for place, array in enumerate(self.elements.values())}
        array_file.write(path, {"digests": self.digests, "paths": list(self.elements)}, arrays)

    @classmethod
    def read(cls, path: Path) -> TracedEnd | None:
        """Reads what a worker of this version wrote; None when there is none."""
        found = array_file.read(path)
        if found is None:
            return None
        content, arrays = found
        return cls(content["digests"], {name: arrays[str(place)] for place, name in enumerate(content["paths"])})


def digest(array: Any) -> str:
    """A checksum of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
