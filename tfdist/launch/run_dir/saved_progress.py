"""Finds what of a run that failed is saved, for its report: its newest checkpoint, by the names in its directory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tfdist.rundir.layout import RunDir

_STEP = re.compile(r"step-(\d+)(?:\.\d+)?")
_FIT = re.compile(r"fit-(\d+)")
_MARKER = "checkpoint.json"


def saved_line(run: RunDir, step: int, *, is_kept: bool) -> str:
    """The line of the report.

    Args:
        run: The run directory, on the chief's machine.
        step: The step that the training had come to, over all fits of a script.
        is_kept: Whether the run makes checkpoints by itself.
    """
    newest = _newest(run)
    if newest is not None:
        fit, saved = newest
        of_fit = f" of fit {fit}" if fit > 1 else ""
        return f"saved: step {saved}{of_fit}, in {run.checkpoints_dir}; --run-dir {run} --resume auto goes on there"
    if not is_kept:
        return (
            f"nothing of its {step} steps is saved: a script is, where it is started with --resume auto, "
            "--max-restarts or --checkpoint-every"
        )
    return f"nothing of its {step} steps is saved: it came to no checkpoint; --checkpoint-every 100, or 1m, makes more"


def _newest(run: RunDir) -> tuple[int, int] | None:
    """The last fit that has a whole checkpoint, from 1, and the step of its newest one; None where there is none."""
    folders = {1: run.checkpoints_dir}
    for entry in _entries(run.checkpoints_dir):
        match = _FIT.fullmatch(entry.name)
        if match:
            folders[int(match[1])] = entry
    for fit, folder in sorted(folders.items(), reverse=True):
        steps = [int(match[1]) for entry in _entries(folder) if (match := _STEP.fullmatch(entry.name))
                 and (entry / _MARKER).is_file()]  # fmt: skip
        if steps:
            return fit, max(steps)
    return None


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:
        return
