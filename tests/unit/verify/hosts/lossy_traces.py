"""Traces made by hand, of runs on three hosts as `tests/unit/verify/killing/traces.py` makes them on two workers."""

from __future__ import annotations

import dataclasses

from tests.unit.verify.killing.traces import end, trace
from tfdist.training.probes.probe_files import Trace, TracedEnd
from tfdist.verify.killing.trace_comparison import TracedRun


def attempt(workers: int, begun: int = 0, ended: int = 12, **changes: float) -> tuple[Trace, ...]:
    """An attempt of some workers that began after some steps."""
    return (dataclasses.replace(trace(begun, ended, **changes), workers=workers),) * workers


def run(
    *attempts: tuple[Trace, ...], ends: tuple[TracedEnd | None, ...] | None = None, record: str | None = None
) -> TracedRun:
    """A run of these attempts, with the same weights on all workers of the last one."""
    return TracedRun(attempts, ends or (end(),) * len(attempts[-1]), record)


WHOLE = run(attempt(3))
ALONE = run(attempt(1, loss=1 + 1e-7), ends=(end(kernel=1 + 2e-6),))
CHANGED = run(attempt(3, 0, 5), attempt(2, 3, 8, loss=1 + 1e-6), attempt(3, 6, loss=1 + 1e-6))
UNCHANGED = run(attempt(3, 0, 5), attempt(3, 3))
