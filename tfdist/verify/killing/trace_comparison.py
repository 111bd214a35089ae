"""Comparison of a killed run with an untouched one, by their traces: pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfdist.training.probes.probe_files import Trace, TracedEnd, TracedSteps
from tfdist.verify.relative_difference import DATA_TOLERANCE, relative, relative_arrays

FindingKind = Literal["alone", "resume", "samples", "history", "weights"]


@dataclass(frozen=True)
class TracedRun:
    """Traces of one run.

    Attributes:
        attempts: The traces of each attempt's workers, the chief's first.
        ends: The final weights of each worker, the chief's first; None where a worker has left none.
        record: The text of `history.json`; None where the run writes none, as most scripts do.
    """

    attempts: tuple[tuple[Trace, ...], ...]
    ends: tuple[TracedEnd | None, ...]
    record: str | None = None

    @property
    def chief(self) -> Trace:
        """The chief's trace of the first attempt."""
        return self.attempts[0][0]


@dataclass(frozen=True)
class Finding:
    """Comparison of one kind of trace.

    Attributes:
        what: The kind.
        compared: How much was compared, for people.
        parted: The first place where they part; None where they are the same.
        step: Steps of the run at that place; None where it has none.
        relative: How far apart the numbers are there; None where they are no numbers.
    """

    what: FindingKind
    compared: str
    parted: str | None = None
    step: int | None = None
    relative: float | None = None


def compare(whole: TracedRun, killed: TracedRun) -> tuple[Finding, ...]:
    """Compares a killed run with the untouched one, causes before their effects."""
    return (
        resume_finding(killed),
        samples_finding(whole, killed),
        history_finding(whole, killed),
        weights_finding(whole, killed),
    )


def resume_finding(killed: TracedRun) -> Finding:
    """Returns whether each attempt began at a later step than the one before it."""
    begun = [attempt[0].begun for attempt in killed.attempts]
    compared = f"{len(begun) - 1} restarts"
    for number, (before, step) in enumerate(zip(begun, begun[1:], strict=False), start=1):
        if step is not None and before is not None and step <= before:
            text = f"attempt {number} began after step {step}, and the one before it after step {before}"
            return Finding("resume", compared, text, step)
    return Finding("resume", compared)


def samples_finding(whole: TracedRun, killed: TracedRun) -> Finding:
    """Returns whether each step was trained, on the samples that it has in the untouched run."""
    expected = {(steps.step, steps.steps): steps for steps in whole.chief.steps}
    traces = [trace for attempt in killed.attempts for trace in attempt]
    # The chief may have been ended before it recorded the step in which another worker was killed.
    own = [steps for attempt in killed.attempts for steps in max(attempt, key=lambda trace: len(trace.steps)).steps]
    done = {step for steps in own for step in range(steps.step - steps.steps + 1, steps.step + 1)}
    again = sum(steps.steps for steps in own) - len(done)
    compared = f"{len(done)} steps, of which {again} were trained again"
    for steps in (steps for trace in traces for steps in trace.steps):
        other = expected.get((steps.step, steps.steps))
        distance = math.inf if other is None else relative(other.data, steps.data)
        if distance > DATA_TOLERANCE:
            return Finding("samples", compared, _other_samples(steps, other), steps.step, distance)
    left = next((step for step in range(1, (whole.chief.ended or 0) + 1) if step not in done), None)
    return Finding("samples", compared, None if left is None else f"step {left} was never trained", left)


def _other_samples(steps: TracedSteps, other: TracedSteps | None) -> str:
    if other is None:
        return f"step {steps.step} has no counterpart in the untouched run"
    return f"step {steps.step} was trained on other samples"


def history_finding(whole: TracedRun, killed: TracedRun) -> Finding:
    """Returns whether each epoch ended with the same loss and metrics, to the bit."""
    expected = {epoch.step: epoch for epoch in whole.chief.epochs}
    metrics = {name for epoch in expected.values() for name in epoch.logs}
    compared = f"{len(expected)} epochs of {len(metrics)} metrics"
    seen = set()
    for trace in (attempt[0] for attempt in killed.attempts):
        for epoch in trace.epochs:
            other = expected.get(epoch.step)
            if other is None:
                return Finding("history", compared, f"the untouched run has no epoch that ends at step {epoch.step}")
            seen.add(epoch.step)
            for name, distance in _parted(other.logs, epoch.logs):
                text = f"{name} of epoch {epoch.epoch + 1}: {epoch.logs.get(name)} instead of {other.logs.get(name)}"
                return Finding("history", compared, text, epoch.step, distance)
    missing = sorted(expected.keys() - seen)
    if missing:
        return Finding("history", compared, f"the epoch that ends at step {missing[0]} never ended", missing[0])
    return Finding("history", compared, None if whole.record == killed.record else "history.json is another one")


def _parted(one: Mapping[str, float], other: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for name in dict.fromkeys([*one, *other]):
        distance = relative(one.get(name, math.inf), other.get(name, -math.inf))
        if distance:
            yield name, distance


def weights_finding(whole: TracedRun, killed: TracedRun) -> Finding:
    """Compares each worker with itself, to the bit: gradients being accumulated, say, are each replica's own."""
    chief = whole.ends[0]
    if chief is None:
        return Finding("weights", "nothing", "the untouched run has left no weights")
    compared = f"{len(chief.digests)} weights and variables of the optimizer, on {len(killed.ends)} worker(s)"
    for worker, (expected, end) in enumerate(zip(whole.ends, killed.ends, strict=True)):
        if expected is None or end is None:
            whose = "of the untouched run has" if expected is None else "has"
            return Finding("weights", compared, f"worker {worker} {whose} left no weights")
        parted = _parted_weights(expected, end)
        if parted is not None:
            name, more, distance = parted
            also = f", and {more} more" if more else ""
            return Finding("weights", compared, f"{name} on worker {worker}{also}", relative=distance)
    return Finding("weights", compared)


def _parted_weights(expected: TracedEnd, end: TracedEnd) -> tuple[str, int, float] | None:
    """The weight that is furthest apart, how many others are, and how far it is; None where all bytes are the same."""
    names = [
        name
        for name in dict.fromkeys([*expected.digests, *end.digests])
        if expected.digests.get(name) != end.digests.get(name)
    ]
    if not names:
        return None
    distances = [_distance(expected, end, name) for name in names]
    worst = int(np.argmax(distances))
    return names[worst], len(names) - 1, float(distances[worst])


def _distance(one: TracedEnd, other: TracedEnd, name: str) -> float:
    if name not in one.elements or name not in other.elements:
        return math.inf
    return relative_arrays(one.elements[name], other.elements[name])


def attempts_of(killed: TracedRun) -> list[tuple[int | None, int | None]]:
    """For each attempt the steps done before it, and those done by the last step of any of its workers."""
    return [
        (attempt[0].begun, max((trace.ended for trace in attempt if trace.ended is not None), default=None))
        for attempt in killed.attempts
    ]
