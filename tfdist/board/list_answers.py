"""Answers about several runs: the list of a folder, and a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfdist.board.board_folder import MOST_RUNS, BoardFolder, key_of
from tfdist.board.run_answers import bounded, check_sizes, curves, thinned
from tfdist.errors import RunDirError
from tfdist.launch.run_dir.epoch_metrics import read_metrics
from tfdist.reports.comparison import ComparedRun, Row, compare, read_compared
from tfdist.reports.status.run_status import RunStatus
from tfdist.reports.status.status_reader import read_listed
from tfdist.reports.status.status_table import LIST_COLUMNS, list_row

PAGE = 50
"""Runs of one answer."""
MOST_COMPARED = 8
_MOST_ROWS = 500
_SPARK_POINTS = 48
_SPARK_BYTES = 1 << 17


def list_answer(folder: BoardFolder, first: int, find: str) -> dict[str, Any]:
    """Some runs, the newest first.

    Args:
        first: How many newer ones are left out.
        find: A part of their directories' names, in whatever case; empty for all.
    """
    runs = folder.runs()
    found = [run for run in runs if find.casefold() in run.name.casefold()]
    shown: list[Path] = []
    refused: dict[Path, str] = {}
    for run in found[first : first + PAGE]:
        try:
            folder.check(run)
            shown.append(run)
        except RunDirError as error:
            refused[run] = str(error)
    listed = read_listed(folder.path, shown)
    unreadable = {**listed.unreadable, **refused}
    return bounded(
        {
            "folder": str(folder.path),
            "single": runs == [folder.path],
            "over": listed.is_over,
            "columns": [{"name": name, "align": align} for name, align in LIST_COLUMNS],
            "runs": [_listed(folder, listed.now, run) for run in listed.runs],
            "unreadable": [{"name": run.name, "why": why} for run, why in unreadable.items()],
            "first": first,
            "page": PAGE,
            "found": len(found),
            "all": len(runs),
            "note": f"only the newest {MOST_RUNS:,} runs are shown" if len(runs) == MOST_RUNS else "",
        }
    )


def _listed(folder: BoardFolder, now: float, run: RunStatus) -> dict[str, Any]:
    files = run.snapshot.run
    return {
        "key": key_of(files.path),
        "state": run.condition.value,
        "over": run.is_over,
        "cells": list_row(now, run),
        "spark": folder.remembered(files.metrics_file, _spark),
    }


def _spark(file: Path) -> dict[str, Any]:
    """The curve of the loss, of the validation where there is one."""
    epochs = read_metrics(file, _SPARK_BYTES)
    name = next((name for name in ("val_loss", "loss") if any(name in epoch.values for epoch in epochs)), "")
    values = [epoch.values[name] for epoch in epochs if name in epoch.values]
    return {"name": name, "values": thinned(values, _SPARK_POINTS)}


def compare_answer(paths: Sequence[Path]) -> dict[str, Any]:
    """Two or more runs side by side.

    Raises:
        RunDirError: One of them cannot be read.
    """
    for path in paths:
        check_sizes(path)
    runs = [read_compared(path) for path in paths]
    found = compare(runs)
    return bounded(
        {
            "over": all(run.status.is_over for run in runs),
            "runs": [_compared(run) for run in runs],
            "facts": _rows(found.facts),
            "metrics": _rows(found.metrics),
            "settings": _rows(found.settings),
            "has_configs": sum(bool(run.settings) for run in runs),
        }
    )


def _compared(run: ComparedRun) -> dict[str, Any]:
    path = run.status.snapshot.run.path
    begun = run.status.snapshot.created
    return {"key": key_of(path), "name": path.name, "state": run.status.condition.value, **curves(run.epochs, begun)}


def _rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"label": row.label, "cells": row.cells, "best": sorted(row.best)} for row in rows[:_MOST_ROWS]]
