"""The fields of a record of how far a run is, for programs: numbers where the line for people has words. Pure."""

from __future__ import annotations

import math
from typing import Any

from tfdist.launch.progress.run_progress import RunProgress


def progress_record(progress: RunProgress) -> dict[str, Any]:
    """The fields; those that are not known are None. Epochs count from 1, as in the line for people."""
    return {
        "event": "progress",
        "state": progress.state.value,
        "epoch": progress.epoch + 1,
        "epochs": progress.epochs,
        "step": progress.step,
        "steps": progress.steps,
        "metrics": {name: _number(text) for name, text in progress.metrics.items()} or None,
        "samples_per_second": round(progress.rate, 3) or None,
        "input_wait": round(progress.waited, 4),
        "epoch_seconds_left": _rounded(progress.epoch_left),
        "run_seconds_left": _rounded(progress.run_left),
        "gpu_memory_bytes": progress.gpu_memory,
    }


def _number(text: str) -> float | None:
    """The value of a metric; None for what is no number that JSON has."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
