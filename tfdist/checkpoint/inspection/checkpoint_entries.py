"""The checkpoints of a run as they lie on the disk, and whether they are whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.inspection.locations import folder_of
from tfdist.errors import DataError, RunDirError, StoreError
from tfdist.rundir.json_record import is_finite
from tfdist.rundir.layout import RunDir
from tfdist.rundir.run_snapshot import read_run
from tfdist.text import format_bytes, format_duration, printable, table

_MOST_STEPS = 1 << 63


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint with its summary.

    Attributes:
        stored: The checkpoint on the disk.
        size: Bytes of all its files.
        summary: Its summary; empty where that cannot be read.
        fault: What is wrong with it by its files' names and sizes; None for nothing.
    """

    stored: checkpoint_files.StoredCheckpoint
    size: int
    summary: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    fault: str | None = None

    @property
    def name(self) -> str:
        """The name of its directory."""
        return self.stored.path.name

    @property
    def epoch(self) -> int | None:
        """Epochs that were done."""
        return _count(self.summary.get("epoch"))

    @property
    def step_in_epoch(self) -> int | None:
        """Steps that were done of the next epoch."""
        return _count(self.summary.get("step"))

    @property
    def time(self) -> float | None:
        """The time at which it was made, in seconds since 1970 (UTC)."""
        time = self.summary.get("time")
        return float(time) if is_finite(time) else None

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last epoch that was done, or of the last step where none was."""
        history = mapping(mapping(self.summary.get("record")).get("history"))
        last = {name: values[-1] for name, values in history.items() if isinstance(values, list) and values}
        found = last or mapping(self.summary.get("logs"))
        return {name: float(value) for name, value in found.items() if _is_float(value)}


def checkpoints_of(run_dir: str | Path, fit: int = 1) -> tuple[RunDir, list[CheckpointEntry]]:
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
    held = [_held(stored) for stored in checkpoint_files.stored(folder)]
    if not held:
        raise RunDirError(
            f"There is no checkpoint in {folder}. Expected the run directory on the chief's machine of a "
            "run that has saved. Received: one without any checkpoint."
        )
    return run, held


def chosen(held: Sequence[CheckpointEntry], step: int | None) -> CheckpointEntry:
    """The latest checkpoint of a step; without a step, the latest that is whole by names and sizes.

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


def check_readable(entry: CheckpointEntry) -> None:
    """Raises `DataError` when a file of a checkpoint is absent or cut short."""
    if entry.fault is not None:
        raise DataError(
            f"The checkpoint {entry.stored.path} is damaged: {entry.fault}. Expected one that is whole. `tfdist "
            "checkpoints ls` shows which are; choose one with --step."
        )


def damages(entry: CheckpointEntry) -> list[str]:
    """Returns what is wrong with each file that is not as it was written, for people. Reads every byte."""
    if not entry.stored.is_marked:
        return [entry.fault or "it was never finished"]
    return list(entry.stored.faults(checkpoint_files.other_bytes))


def damages_or_obstacle(entry: CheckpointEntry) -> list[str]:
    """As `damages`; for a checkpoint that cannot be reached, why."""
    try:
        return damages(entry)
    except (RunDirError, StoreError) as error:
        return [str(error.__cause__ or error)]


def _held(stored: checkpoint_files.StoredCheckpoint) -> CheckpointEntry:
    try:
        size = sum(file.stat().st_size for file in stored.path.iterdir())
    except OSError:
        size = 0  # the run has just removed it
    try:
        fault = _fault(stored)
        return CheckpointEntry(stored, size, checkpoint_files.summary_of(stored), fault)
    except ValueError as error:
        return CheckpointEntry(stored, size, fault=fault or str(error))
    except (RunDirError, StoreError) as error:
        return CheckpointEntry(stored, size, fault=str(error.__cause__ or error))


def _fault(stored: checkpoint_files.StoredCheckpoint) -> str | None:
    """Returns what is wrong by names and sizes: quick, and does not notice changed bytes."""
    if not stored.is_marked:
        return "it was never finished, or is being written"
    return next(stored.faults(checkpoint_files.wrong_size), None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < _MOST_STEPS else None


def _is_float(value: Any) -> bool:
    """Returns whether a value of a JSON file is a number, infinity and NaN among them, that a float can have."""
    return isinstance(value, float) or is_finite(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """A part of a summary that should be a mapping; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def finite(value: Any) -> Any:
    """A part of a summary for JSON, where null stands for infinity and NaN."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_MOST_METRICS = 4


def render(held: Sequence[CheckpointEntry], now: float) -> str:
    """The table, the latest checkpoint first.

    Args:
        held: The checkpoints.
        now: The time, in seconds since 1970 (UTC).
    """
    names = shown_metrics(held)
    head = ("checkpoint", "step", "epoch", "size", "age", *names, "whole")
    align = "lrrrr" + "r" * len(names) + "l"
    lines = table([head, *(_row(entry, names, now) for entry in held)], align)
    return "\n".join(map(printable, lines))


def shown_metrics(held: Sequence[CheckpointEntry]) -> list[str]:
    """The metrics that a table has room for: those of the validation first, and of these the losses."""
    names = {name for entry in held for name in entry.metrics}
    ordered = sorted(names, key=lambda name: (not name.startswith("val_"), not name.endswith("loss"), name))
    return ordered[:_MOST_METRICS]


def to_json(run_dir: str, held: Sequence[CheckpointEntry]) -> dict[str, Any]:
    """A value that `json.dumps` takes. Times are seconds since 1970 (UTC), sizes bytes; `epoch` counts those done."""
    return {"run_dir": run_dir, "checkpoints": [_document(entry) for entry in held]}


def _document(entry: CheckpointEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "path": str(entry.stored.path),
        "step": entry.stored.step,
        "epoch": entry.epoch,
        "step_in_epoch": entry.step_in_epoch,
        "bytes": entry.size,
        "time": entry.time,
        "metrics": finite(entry.metrics),
        "whole": entry.fault is None,
        "fault": entry.fault,
    }


def _row(entry: CheckpointEntry, names: Sequence[str], now: float) -> tuple[str, ...]:
    metrics = entry.metrics
    return (
        entry.name,
        str(entry.stored.step),
        "-" if entry.epoch is None else _epoch(entry),
        format_bytes(entry.size),
        "-" if entry.time is None else format_duration(now - entry.time),
        *(f"{metrics[name]:.4g}" if name in metrics else "-" for name in names),
        "yes" if entry.fault is None else f"no: {entry.fault}",
    )


def _epoch(entry: CheckpointEntry) -> str:
    """Epochs that are done, and the steps of the next one."""
    inside = entry.step_in_epoch
    return f"{entry.epoch}+{inside}" if inside else str(entry.epoch)
