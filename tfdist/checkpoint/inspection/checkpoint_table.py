"""The checkpoints of a run as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry, finite
from tfdist.text import format_bytes, format_duration, printable, table

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
