"""Comparison of a run that has lost hosts with an untouched one: to the bit until their number changes, then rounded.

What rounding does is seen in two untouched runs, of one worker and of as many as there are hosts, which sum in another
order: ten times that is allowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tfdist.training.probes.probe_files import Trace, TracedEnd, TracedEpoch
from tfdist.verify.killing.trace_comparison import (
    Finding,
    TracedRun,
    history_finding,
    resume_finding,
    samples_finding,
    weights_finding,
)
from tfdist.verify.relative_difference import relative, relative_arrays, root_mean_square

MARGIN = 10
LEAST = 1e-5
"""The least relative difference of losses and weights that is allowed: rounding adds up over a training."""
LEAST_OF_METRICS = 2e-2
"""The same of all that is no loss: one sample that is told right or wrong moves an accuracy in steps."""
_UNDECIDED = 1e-2
"""The largest difference that rounding may explain; beyond it, nothing can be said of a weight or a loss."""
_LEAST_SCALE = 1e-3
"""Of the typical weight: the least magnitude that a difference is related to; a bias may hardly have moved from 0."""


@dataclass(frozen=True)
class Rounding:
    """The difference that numbers may have where the number of workers has changed.

    Attributes:
        alone: The untouched run on one worker; None where `fixed` says it.
        whole: The untouched run on all hosts.
        fixed: The relative difference that is allowed; None for what these two runs show.
    """

    alone: TracedRun | None
    whole: TracedRun
    fixed: float | None = None

    def of_metric(self, name: str) -> float:
        """Returns what is allowed of a metric; infinite where rounding alone moves it too far."""
        if self.fixed is not None:
            return self.fixed
        assert self.alone is not None, "it is measured by a run on one worker"
        own = {epoch.step: epoch.logs.get(name, math.nan) for epoch in self.alone.chief.epochs}
        pairs = [(own.get(epoch.step, math.nan), epoch.logs.get(name, math.nan)) for epoch in self.whole.chief.epochs]
        measured = max((relative(*pair) for pair in pairs), default=0.0)
        if not is_loss(name):
            return max(LEAST_OF_METRICS, MARGIN * measured)
        return math.inf if MARGIN * measured > _UNDECIDED else max(LEAST, MARGIN * measured)

    def of_weight(self, name: str, least: float) -> float:
        """The same of a weight. `least` is the least magnitude that its difference is related to."""
        if self.fixed is not None:
            return self.fixed
        one, other = (None if run is None else run.ends[0] for run in (self.alone, self.whole))
        if one is None or other is None or name not in one.elements or name not in other.elements:
            return math.inf
        by_rounding = MARGIN * relative_arrays(one.elements[name], other.elements[name], least)
        return math.inf if by_rounding > _UNDECIDED else max(LEAST, by_rounding)


class _Difference(NamedTuple):
    """One number or weight of both runs: what is compared, how far apart it is, and what is allowed."""

    name: str
    relative: float
    allowed: float
    text: str = ""
    step: int | None = None

    @property
    def is_beyond(self) -> bool:
        return self.relative > self.allowed


def compare_rounded(whole: TracedRun, lossy: TracedRun, rounding: Rounding | None) -> tuple[Finding, ...]:
    """Compares a run that has lost hosts with the untouched one, causes before their effects.

    Args:
        rounding: How far they may differ; None where the number of workers has not changed: not at all.
    """
    findings = [resume_finding(lossy), samples_finding(whole, lossy)]
    if rounding is None:
        return (*findings, history_finding(whole, lossy), weights_finding(whole, lossy))
    alone = () if rounding.alone is None else (_alone_finding(rounding.alone, whole),)
    return (*alone, *findings, _history(whole, lossy, rounding), _weights(whole, lossy, rounding))


def has_changed(whole: TracedRun, lossy: TracedRun) -> bool:
    """Returns whether the number of workers has changed."""
    return not _is_unchanged(whole, lossy.attempts)


def is_loss(name: str) -> bool:
    """Returns whether a metric of this name is a loss, as Keras names them."""
    return name == "loss" or name.endswith("_loss")


def _alone_finding(alone: TracedRun, whole: TracedRun) -> Finding:
    """Whether untouched runs on one worker and on all hosts are the same, so that they show what rounding does."""
    samples = samples_finding(alone, whole)
    worst = 0.0
    expected = {epoch.step: epoch for epoch in alone.chief.epochs}
    for epoch in whole.chief.epochs:
        for name in filter(is_loss, epoch.logs):
            other = expected[epoch.step].logs.get(name, math.inf) if epoch.step in expected else math.inf
            distance = relative(other, epoch.logs[name])
            worst = max(worst, distance)
            if MARGIN * distance > _UNDECIDED:
                text = f"{name} of epoch {epoch.epoch + 1}: {epoch.logs[name]} instead of {other}"
                return Finding("alone", samples.compared, samples.parted or text, epoch.step, distance)
    return Finding("alone", f"losses differ by up to {worst:.0e}", samples.parted, samples.step, samples.relative)


def _is_unchanged(whole: TracedRun, attempts: tuple[tuple[Trace, ...], ...]) -> bool:
    """Returns whether all of these attempts had as many workers as the untouched run."""
    return all(trace.workers == whole.chief.workers for attempt in attempts for trace in attempt)


def _history(whole: TracedRun, lossy: TracedRun, rounding: Rounding) -> Finding:
    expected = {epoch.step: epoch for epoch in whole.chief.epochs}
    metrics = {name for epoch in expected.values() for name in epoch.logs}
    allowed = {name: rounding.of_metric(name) for name in metrics}
    found: list[_Difference] = []
    seen: set[int] = set()
    exact: set[int] = set()
    for number, attempt in enumerate(lossy.attempts):
        same = _is_unchanged(whole, lossy.attempts[: number + 1])
        for epoch in attempt[0].epochs:
            other = expected.get(epoch.step)
            if other is None:
                text = f"the untouched run has no epoch that ends at step {epoch.step}"
                return Finding("history", f"{len(expected)} epochs", text, epoch.step)
            seen.add(epoch.step)
            exact |= {epoch.step} if same else set()
            found += _epoch_differences(other, epoch, {} if same else allowed)
    compared = f"{len(expected)} epochs of {len(metrics)} metrics, {_precisely(len(exact), found)}"
    missing = sorted(expected.keys() - seen)
    if missing:
        return Finding("history", compared, f"the epoch that ends at step {missing[0]} never ended", missing[0])
    found += _record_differences(whole.record, lossy.record, allowed)
    parted = next((difference for difference in found if difference.is_beyond), None)
    if parted is not None:
        return Finding("history", compared, parted.text, parted.step, parted.relative)
    return Finding("history", compared)


def _epoch_differences(
    expected: TracedEpoch, epoch: TracedEpoch, allowed: Mapping[str, float]
) -> Iterator[_Difference]:
    for name in dict.fromkeys([*expected.logs, *epoch.logs]):
        distance = relative(expected.logs.get(name, math.inf), epoch.logs.get(name, -math.inf))
        received, other = epoch.logs.get(name), expected.logs.get(name)
        text = f"{name} of epoch {epoch.epoch + 1}: {received} instead of {other}"
        yield _Difference(name, distance, allowed.get(name, 0.0), text, epoch.step)


def _record_differences(
    expected: str | None, record: str | None, allowed: Mapping[str, float]
) -> Iterator[_Difference]:
    """Yields what `history.json` says otherwise, in which each metric has a number for each epoch."""
    one, other = ({} if text is None else json.loads(text) for text in (expected, record))
    for name in dict.fromkeys([*one, *other]):
        values, received = one.get(name, []), other.get(name, [])
        distances = map(relative, values, received)
        worst = max(distances, default=0.0) if len(values) == len(received) else math.inf
        text = f"{name} in history.json: {received} instead of {values}"
        yield _Difference(name, worst, allowed.get(name, 0.0), text)


def _weights(whole: TracedRun, lossy: TracedRun, rounding: Rounding) -> Finding:
    """Compares all workers with the chief of the untouched run, where all workers of that have the same."""
    chief = whole.ends[0]
    if chief is None:
        return Finding("weights", "nothing", "the untouched run has left no weights")
    own = _own_of_workers(whole)
    names = [name for name in chief.digests if name not in own]
    least = _least(chief)
    found: list[_Difference] = []
    for worker, end in enumerate(lossy.ends):
        if end is None:
            return Finding("weights", "nothing", f"worker {worker} has left no weights")
        if end.digests.keys() != chief.digests.keys():
            return Finding("weights", "nothing", f"worker {worker} has other weights than the untouched run")
        for name in names:
            allowed = rounding.of_weight(name, least)
            found.append(_weight_difference(chief, end, name, worker, least, allowed))
    judged = len({difference.name for difference in found if difference.allowed < math.inf})
    left = len(chief.digests) - judged
    compared = f"{judged} weights and variables of the optimizer, on {len(lossy.ends)} worker(s)"
    compared += f", {_precisely(0, found)}"
    compared += f" ({left} not judged)" if left else ""
    if not judged:
        text = "rounding alone moves all of them: tfdist verify without --kill tells more"
        return Finding("weights", compared, text)
    parted = max((d for d in found if d.is_beyond), key=lambda d: d.relative, default=None)
    if parted is None:
        return Finding("weights", compared)
    more = len({d.name for d in found if d.is_beyond}) - 1
    return Finding("weights", compared, parted.text + (f", and {more} more" if more else ""), relative=parted.relative)


def _weight_difference(
    expected: TracedEnd, end: TracedEnd, name: str, worker: int, least: float, allowed: float
) -> _Difference:
    distance = 0.0
    if expected.digests[name] != end.digests[name]:
        # Bytes that differ where the elements that were sampled do not are a difference, too.
        distance = relative_arrays(expected.elements[name], end.elements[name], least) or math.ulp(0.0)
    return _Difference(name, distance, allowed, f"{name} on worker {worker}")


def _own_of_workers(run: TracedRun) -> set[str]:
    """Returns what each worker of a run has for itself, such as gradients that it accumulates."""
    first, *others = (end for end in run.ends if end is not None)
    return {name for name in first.digests for end in others if end.digests.get(name) != first.digests[name]}


def _precisely(exact: int, found: list[_Difference]) -> str:
    """Returns how precisely numbers were compared, of which some are the same to the bit."""
    judged = [difference for difference in found if 0 < difference.allowed < math.inf]
    worst = max((difference.relative for difference in judged), default=0.0)
    of_them = f"{exact} to the bit, " if exact else ""
    return f"{of_them}differences up to {worst:.0e}"


def _least(end: TracedEnd) -> float:
    """The least magnitude that differences of weights are related to."""
    elements = [array.astype(np.float64).ravel() for array in end.elements.values()]
    every = np.concatenate(elements) if elements else np.zeros(0)
    return _LEAST_SCALE * root_mean_square(every[np.isfinite(every)])
