"""Files with the recording or the trace of a worker; they take NumPy alone, so that the launcher can read them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tfdist.rundir import atomic_files

_TEXT = "text"


def write(path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Makes or replaces a file.

    Args:
        path: The file.
        content: In JSON's types.
        arrays: By name; none is called "text".

    Raises:
        RunDirError: It cannot be written.
    """
    named: dict[str, Any] = {_TEXT: np.frombuffer(json.dumps(content).encode(), np.uint8), **arrays}
    with atomic_files.replacing(path, durable=False) as temporary:
        np.savez(temporary, **named)


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """The content and the arrays that `write` was given; None where there is no file."""
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(arrays.pop(_TEXT).tobytes()), arrays


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
        write(path, {"digests": self.digests, "paths": list(self.elements)}, arrays)

    @classmethod
    def read(cls, path: Path) -> TracedEnd | None:
        """Reads what a worker of this version wrote; None when there is none."""
        found = read(path)
        if found is None:
            return None
        content, arrays = found
        return cls(content["digests"], {name: arrays[str(place)] for place, name in enumerate(content["paths"])})


def digest(array: Any) -> str:
    """A checksum of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@dataclass(frozen=True)
class Moment:
    """The state of a training before its first step, or after one of its steps.

    Attributes:
        step: Steps trained so far, over all `fit`s of the process.
        fit: Which `fit`, from 0.
        values: Loss and metrics of the epoch so far, over the global batches; empty before the first step.
        gradient_norm: The norm of the gradients that the optimizers got since the moment before; None if unknown.
        data: The fingerprint of the samples of the step; None if unknown.
        weights: Path of each weight of the model -> some of its elements, 1-D, spread evenly.
        differences: Path -> the largest absolute difference between the copies of a weight on this worker's replicas,
            where there is one.
    """

    step: int
    fit: int
    values: Mapping[str, float] = field(default_factory=dict)
    gradient_norm: float | None = None
    data: float | None = None
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    differences: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """One worker's moments, in order, and facts of its models and devices.

    Attributes:
        facts: In JSON's types; see `Recorder.write` for its keys.
        moments: The first one of every `fit` is that before its first step.
    """

    facts: Mapping[str, Any]
    moments: Sequence[Moment]

    def part(self, fits: range) -> Recording:
        """The moments of some `fit`s, in a row, as if the process had trained nothing else."""
        own = [moment for moment in self.moments if moment.fit in fits]
        first = own[0].step if own else 0
        moments = tuple(replace(m, step=m.step - first, fit=m.fit - fits.start) for m in own)
        return Recording({**self.facts, "models": self.facts["models"][fits.start : fits.stop]}, moments)

    def write(self, path: Path) -> None:
        """Makes or replaces the file. Raises `RunDirError` when it cannot be written."""
        arrays: dict[str, np.ndarray] = {}
        moments = []
        for number, moment in enumerate(self.moments):
            arrays |= {f"{number}/{place}": array for place, array in enumerate(moment.weights.values())}
            moments.append({**vars(moment), "weights": list(moment.weights)})
        write(path, {"facts": self.facts, "moments": moments}, arrays)

    @classmethod
    def read(cls, path: Path) -> Recording | None:
        """The recording that a worker of this version wrote; None when there is none."""
        found = read(path)
        if found is None:
            return None
        content, arrays = found
        return cls(content["facts"], tuple(_moment(fields, i, arrays) for i, fields in enumerate(content["moments"])))


def _moment(fields: Mapping[str, Any], number: int, arrays: Mapping[str, np.ndarray]) -> Moment:
    weights = {path: arrays[f"{number}/{place}"] for place, path in enumerate(fields["weights"])}
    return Moment(**{**fields, "weights": weights})
