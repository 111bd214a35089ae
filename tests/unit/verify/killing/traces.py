"""Traces made by hand: runs of 12 steps in epochs of 4, with a checkpoint after each third."""

from __future__ import annotations

import numpy as np

from tfdist.training.probes.probe_files import Trace, TracedEnd, TracedEpoch, TracedSteps, digest
from tfdist.verify.killing.trace_comparison import TracedRun

LAST, OF_EPOCH, EVERY = 12, 4, 3


def trace(begun: int = 0, ended: int = LAST, shift: float = 0.0, loss: float = 1.0) -> Trace:
    """An attempt that began after some steps."""
    ends = [step for step in range(begun + 1, ended + 1) if step % OF_EPOCH == 0]
    epochs = tuple(TracedEpoch(step, step // OF_EPOCH - 1, {"loss": loss / step}) for step in ends)
    # A checkpoint is seen with the step after it.
    steps = [
        TracedSteps(step, 1, step + shift, (step - 1) // EVERY - begun // EVERY) for step in range(begun + 1, ended + 1)
    ]
    return Trace(tuple(steps), epochs)


def end(**values: float) -> TracedEnd:
    arrays = {name: np.float32([value]) for name, value in {"kernel": 1.0, "bias": 0.5, **values}.items()}
    return TracedEnd({name: digest(array) for name, array in arrays.items()}, arrays)


def run(*attempts: Trace, ends: tuple[TracedEnd | None, ...] = (end(), end()), record: str | None = None) -> TracedRun:
    """A run of two workers that trace the same."""
    return TracedRun(tuple((attempt, attempt) for attempt in attempts), ends, record)


WHOLE = run(trace())
KILLED = run(trace(0, 5), trace(3, 8), trace(6))
