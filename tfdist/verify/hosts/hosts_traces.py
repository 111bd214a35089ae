"""Traces of a run on hosts, of which each start of the workers may have another number."""

from __future__ import annotations

import re
from pathlib import Path

from tfdist.launch.trace_request import TraceRequest
from tfdist.rundir import RunDir
from tfdist.rundir.regular_files import read_text
from tfdist.training.probes.trace_file import Trace, TracedEnd
from tfdist.verify.killing.trace_comparison import TracedRun

_NAME = re.compile(r"worker-([0-9]+)\.([0-9]+)\.jsonl")


def attempts_in(folder: Path) -> list[int]:
    """The attempts that have left traces in a folder, ascending."""
    return sorted({attempt for _, attempt in _workers_in(folder)})


def read_run(request: TraceRequest, chief: RunDir) -> TracedRun:
    """Reads what the workers of all attempts have traced.

    Args:
        request: Where they have.
        chief: The run directory on the chief's host.
    """
    found = _workers_in(Path(request.directory))
    attempts = [
        tuple(Trace.read(request.steps_file(worker, attempt)) for worker, of in found if of == attempt)
        for attempt in sorted({attempt for _, attempt in found})
    ]
    # An earlier `fit` of a script may have left ends of workers that the last attempt has not.
    last = len(attempts[-1]) if attempts else 1
    ends = tuple(TracedEnd.read(request.end_file(worker)) for worker in range(last))
    record = read_text(chief.history_file) if chief.history_file.exists() else None
    return TracedRun(tuple(attempts) or ((Trace(),),), ends, record)


def _workers_in(folder: Path) -> list[tuple[int, int]]:
    """Worker and attempt of each trace, ascending."""
    matches = (_NAME.fullmatch(file.name) for file in folder.iterdir())
    return sorted((int(match[1]), int(match[2])) for match in matches if match)
