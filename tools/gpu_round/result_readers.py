"""What a part has left in its folder, read also where it was ended before it was done."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.comparison.process_group import ContestantError, last_json
from tools.gpu_round.part_runner import Found
from tools.gpu_round.row_differences import read_rows

LOG = "0.log"
"""The output of a part's process, in its folder."""

_TESTED = re.compile(r"^(\S+::\S.*?) (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)
_LAST_LINES = 40


def read_row_job(folder: Path) -> Found:
    """The facts of the chief of a job of rows, and how many rows it ended."""
    facts, rows = read_rows(folder / "rows.0")
    return Found({"facts": facts, "rows": len(rows), "xla": _xla_lines(folder)})


def read_collectives(folder: Path) -> Found:
    """What `gpu_collectives` found; wrong values and what raised are problems."""
    found = _last_json(folder)
    problems = [
        f"{each['function']} of {each['dtype']}: {each.get('raised', 'wrong values')}"
        for each in found.get("values", [])
        if not each.get("right")
    ]
    return Found(found, tuple(problems))


def read_benchmark(folder: Path) -> Found:
    """The figures and the page of `python -m benchmarks gpu`."""
    figures, page = folder / "out" / "gpu.json", folder / "out" / "gpu.md"
    if not figures.exists():
        return Found()
    runs = json.loads(figures.read_text())["runs"]
    problems = [f"{run['model']}, {run['trainer']}: {run['failure']}" for run in runs if run["failure"]]
    told = [{name: value for name, value in run.items() if name != "said"} for run in runs]
    return Found({"runs": told, "page": page.read_text()}, tuple(problems))


def read_step(folder: Path) -> Found:
    """The rates of a job of two workers, and what its chief's log says of XLA."""
    return Found({**_last_json(folder), "log": _xla_lines(folder)})


def _xla_lines(folder: Path) -> list[str]:
    """What tfdist says of XLA in the log of a run's chief, each line once."""
    logs = sorted((folder / "run" / "logs").rglob("worker-0.*"))
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line.startswith("tfdist:") and "XLA" in line]
    return list(dict.fromkeys(lines))[:_LAST_LINES]


def read_selftest(folder: Path) -> Found:
    """The verdicts of `tfdist selftest`, and the end of what it printed."""
    said = (folder / LOG).read_text(errors="replace").splitlines()
    report: Mapping[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        report = json.loads((folder / "selftest" / "report.json").read_text())
    return Found({"said": said[-_LAST_LINES:], "report": report})


def read_tests(folder: Path) -> Found:
    """How many of tests/gpu passed, failed and were skipped, by the verbose output of pytest."""
    found = _TESTED.findall((folder / LOG).read_text(errors="replace"))
    counts = {verdict.lower(): sum(each == verdict for _, each in found) for verdict in ("PASSED", "FAILED", "SKIPPED")}
    failed = tuple(name for name, verdict in found if verdict in ("FAILED", "ERROR"))
    return Found({**counts, "names": list(failed)}, failed)


def _last_json(folder: Path) -> dict[str, Any]:
    try:
        return last_json(folder / LOG)
    except ContestantError:
        return {}
