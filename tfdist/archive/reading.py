"""The checkpoints of a run as they lie there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfdist.archive.places import folder_of
from tfdist.checkpoint import files
from tfdist.errors import DataError, RunDirError
from tfdist.rundir.layout import RunDir
from tfdist.rundir.reading import read_run

SUMMARY = "summary.json"
WEIGHTS = "model.weights.h5"
REPLICAS = "replicas.npz"


@dataclass(frozen=True)
class Told:
    """What a marker says of a file.

    Attributes:
        size: Its bytes.
        digest: Its SHA-256 in hexadecimal.
    """

    size: int
    digest: str


Look = Callable[[Path, Told], str | None]


@dataclass(frozen=True)
class Held:
    """A checkpoint, and what it says of itself.

    Attributes:
        stored: Where it lies.
        size: Bytes of all its files.
        told: Its summary; empty where that cannot be read.
        fault: What is wrong with it as far as names and sizes tell; None for nothing.
    """

    stored: files.Stored
    size: int
    told: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    fault: str | None = None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.stored.path.name

    @property
    def epoch(self) -> int | None:
        """Epochs that were done."""
        epoch = self.told.get("epoch")
        return epoch if isinstance(epoch, int) else None

    @property
    def time(self) -> float | None:
        """When it was made, in seconds since 1970 (UTC)."""
        time = self.told.get("time")
        return float(time) if isinstance(time, int | float) else None

    @property
    def metrics(self) -> dict[str, float]:
        """Those of the last epoch that was done; of the last step where none was."""
        history = _mapping(_mapping(self.told.get("record")).get("history"))
        last = {name: values[-1] for name, values in history.items() if isinstance(values, list) and values}
        found = last or _mapping(self.told.get("logs"))
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def checkpoints_of(run_dir: str | Path, fit: int = 1) -> tuple[RunDir, list[Held]]:
    """The run and the checkpoints of one of its `fit`s, the latest first.

    Args:
        run_dir: The run directory.
        fit: Which `fit` of its script, counted from 1.

    Raises:
        RunDirError: The directory is not a run's, or has no checkpoint.
    """
    run = RunDir(Path(run_dir))
    read_run(run)
    folder = folder_of(run, fit)
    held = [_held(stored) for stored in files.stored(folder)]
    if not held:
        raise RunDirError(
            f"There is no checkpoint in {folder}. Expected the run directory on the chief's machine of a "
            "run that has saved. Received: one without any checkpoint."
        )
    return run, held


def chosen(held: Sequence[Held], step: int | None) -> Held:
    """The latest checkpoint of a step; without a step the latest that is whole, by names and sizes.

    Raises:
        RunDirError: There is none of that step.
        DataError: None is whole.
    """
    if step is None:
        whole = next((entry for entry in held if entry.fault is None), None)
        if whole is None:
            raise DataError(f"None of {len(held)} checkpoints is whole. `tfdist checkpoints ls` says what is wrong.")
        return whole
    found = next((entry for entry in held if entry.stored.step == step), None)
    if found is None:
        steps = ", ".join(str(step) for step in sorted({entry.stored.step for entry in held}))
        raise RunDirError(f"There is no checkpoint of step {step}. Expected one of {steps}. Received: --step {step}")
    return found


def check_readable(entry: Held) -> None:
    """Raises `DataError` when a file of a checkpoint is absent or cut short."""
    if entry.fault is not None:
        raise DataError(
            f"The checkpoint {entry.stored.path} is damaged: {entry.fault}. Expected one that is whole. `tfdist "
            "checkpoints ls` shows which are; choose one with --step."
        )


def _held(stored: files.Stored) -> Held:
    try:
        size = sum(file.stat().st_size for file in stored.path.iterdir())
    except OSError:
        size = 0  # removed meanwhile, by the run itself
    told, unreadable = _summary(stored.path / SUMMARY)
    return Held(stored, size, told, _fault(stored) or unreadable)


def _summary(file: Path) -> tuple[Mapping[str, Any], str | None]:
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}, f"{SUMMARY} cannot be read"
    return (told, None) if isinstance(told, dict) else ({}, f"{SUMMARY} is damaged")


def _fault(stored: files.Stored) -> str | None:
    """What is wrong by names and sizes: quick, and blind to a byte that has changed."""
    if not stored.is_marked:
        return "it was never finished, or is being written"
    faults = marked_faults(stored.path, wrong_size)
    return faults[0] if faults else None


def marked_faults(folder: Path, look: Look) -> list[str]:
    """What is wrong with the files that a checkpoint's marker names, one text each.

    Args:
        folder: The checkpoint.
        look: Called with a file that is there and what the marker says of it; returns what is wrong or None.
    """
    try:
        marked = json.loads((folder / files.MARKER).read_bytes())["files"]
        named = {folder / name: Told(int(told["bytes"]), str(told["sha256"])) for name, told in marked.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [f"{files.MARKER} is damaged"]
    return [fault for file, told in named.items() if (fault := _look_at(file, look, told)) is not None]


def _look_at(file: Path, look: Look, told: Told) -> str | None:
    try:
        return look(file, told)
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"


def wrong_size(file: Path, told: Told) -> str | None:
    """What is wrong with a file's size."""
    size = file.stat().st_size
    return None if size == told.size else f"{file.name} has {size:,} bytes instead of {told.size:,}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
