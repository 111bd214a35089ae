"""The selftest: looks at the machine, runs the rows on one device and in every layout, and reports.

Comparison of a row's recordings with those on one device, by the rules of `tfdist verify`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfdist.launch.environment import read_gpu_emulation
from tfdist.launch.signals import Signals
from tfdist.launch.worker_options import Compression
from tfdist.selftest.copy_judgement import Way, find_way, judge_copies
from tfdist.selftest.killed_row import run_killed
from tfdist.selftest.layouts import Layout, Layouts, check_collectives, layouts
from tfdist.selftest.row_jobs import Deadline, RowJobs, TimeUp
from tfdist.selftest.rows import Row, RowKind, RowResult, RowRun, SelftestSpec, failed, not_run
from tfdist.selftest.selftest_report import MachineReport, SelftestReport, look, step_times
from tfdist.text import format_count
from tfdist.verify.replicas.likely_causes import ModelFacts
from tfdist.verify.replicas.recording_comparison import Comparison, Difference, compare, measure_tolerance, reproduced
from tfdist.verify.replicas.variants import AGAIN, Variant
from tfdist.verify.replicas.verification_report import (
    ComparisonResult,
    ComparisonVerdict,
    judged,
    result_json,
    result_lines,
)
from tfdist.verify.runs import open_folder

_EXACT = 1e-30
"""Stands for an allowed difference of 0, to divide by."""


def compare_row(
    row: Row, layout: Layout, one: RowRun, again: RowRun, other: RowRun, compression: Compression = "none"
) -> RowResult:
    """Compares a training with that on one device.

    Args:
        layout: Where `other` ran.
        again: The same with weights that were moved by a rounding error, which makes the tolerance.
        compression: The type in which workers sent gradients in `other`; "none" for their own.
    """
    for label, run in (("1 device", one), ("1 device again", again), (layout.label, other)):
        if run.problem:
            return failed(row, layout, f"on {label}: {run.problem}", run.detail, other.seconds)
    reference, perturbed = one.recordings[0], again.recordings[0]
    facts = ModelFacts.of(reference.facts["models"])
    first = reproduced(reference, perturbed, half=facts.half)
    if not first.passed:
        result = judged(replace(AGAIN, reference="1 device", label="1 device again"), first, facts)
        return _result(row, layout, result, other.seconds)
    tolerance = measure_tolerance(reference, perturbed, half=facts.half)
    if compression != "none":
        tolerance = tolerance.compressed()
    comparison = compare(reference, other.recordings, tolerance)
    variant = Variant(
        layout.label, "replicas", layout.workers, layout.replicas, compression=compression, reference="1 device"
    )
    return _result(row, layout, judged(variant, comparison, facts), other.seconds)


def part_of(run: RowRun, fits: range) -> RowRun:
    """A run as if it had had some of its `fit`s only."""
    return run if run.problem else replace(run, recordings=tuple(each.part(fits) for each in run.recordings))


def _result(row: Row, layout: Layout, result: ComparisonResult, seconds: float) -> RowResult:
    assert result.comparison is not None
    greatest = tightest(result.comparison)
    if greatest is None:
        return failed(row, layout, "nothing was compared: the recordings have nothing in common", seconds=seconds)
    parted = result.verdict is ComparisonVerdict.PARTED
    return RowResult(
        row,
        layout,
        result.verdict,
        greatest.relative,
        greatest.allowed,
        _named(greatest),
        " ".join(f"likely cause: {cause.text}" for cause in result.causes),
        "\n".join(result_lines(result)) if parted else "",
        result_json(result) if parted else {},
        seconds,
    )


def tightest(comparison: Comparison) -> Difference | None:
    """The difference that is greatest in relation to what is allowed of it, of those after a step that are judged."""
    first = comparison.rows[0] if comparison.rows else None
    judged = [
        difference
        for row in comparison.rows
        for difference in row.differences
        if math.isfinite(difference.allowed) and (row is not first or difference.is_beyond)
    ]
    return max(judged, key=lambda difference: difference.relative / max(difference.allowed, _EXACT), default=None)


def _named(difference: Difference) -> str:
    what = difference.kind if difference.name == difference.kind else f"{difference.kind} {difference.name}"
    return f"{what}, step {difference.step}"


_LOOK_SECONDS = 120.0
_COPY_SECONDS = 90.0
"""Broken copies between GPUs often hang, and there are other ways to try."""
_RECORDED = (RowKind.COMPARED, RowKind.LOADED)
_LOADING = "loading"
"""The row that loads what another one has saved, and trains further, as that one does in its second `fit`."""
_FURTHER = range(1, 2)


@dataclass(frozen=True)
class Listener:
    """Who is told while a selftest runs.

    While a job runs, `sys.stdout` and `sys.stderr` are a file of its launcher, and results come from a thread: who
    prints must hold the terminal's streams. No two calls overlap.

    Attributes:
        tell: Called with progress messages.
        begin: Called with the machine and the layouts, before the first row.
        result: Called with each result.
    """

    tell: Callable[[str], None] = lambda line: None
    begin: Callable[[MachineReport, Layouts], None] = lambda machine, found: None
    result: Callable[[RowResult], None] = lambda result: None


def run_selftest(spec: SelftestSpec, listener: Listener) -> SelftestReport:
    """Runs the rows that were asked for, and compares.

    Args:
        listener: Is told of progress.

    Raises:
        UsageError: A GPU that was asked for is not there, or they are none for these collectives.
        WorkerFailedError: TensorFlow does not work here.
        Interrupted: A signal came.
    """
    began = time.time()
    with Signals() as signals, open_folder(None) as folder, Deadline(spec.timeout) as deadline:
        listener.tell("looking at this machine")
        machine = look(began, min(_LOOK_SECONDS, spec.timeout))
        seen = len(machine.tensorflow.gpus) or read_gpu_emulation().count or 0
        found = layouts(seen, spec.devices, spec.logical_devices, spec.nproc, machine.tensorflow.nccl)
        check_collectives(found, spec.communication)
        listener.begin(machine, found)
        jobs = RowJobs(spec, folder.path, signals, deadline)
        test = _Selftest(spec, found, jobs, listener)
        try:
            test.run()
        except TimeUp:
            test.leave_rest(f"the {spec.timeout:g} s of --timeout are over")
        seconds = time.time() - began
        return SelftestReport(
            machine, spec.run_options, tuple(test.results), step_times(test.times), found.notes, seconds
        )


@dataclass
class _Selftest:
    spec: SelftestSpec
    found: Layouts
    jobs: RowJobs
    listener: Listener
    results: list[RowResult] = field(default_factory=list)
    times: list[tuple[str, int, Mapping[str, Any]]] = field(default_factory=list)

    def run(self) -> None:
        """Runs all rows. Raises `TimeUp` and `Interrupted`."""
        # Where copies arrive damaged, everything after them is wrong.
        self._copied()
        self._recorded()
        self._resumed()
        self._timed()

    def leave_rest(self, reason: str) -> None:
        """Says of the rows that have no result yet that they were not run."""
        known = {(result.row, result.layout) for result in self.results}
        for layout in self.found.others:
            for row in self.spec.chosen:
                if (row, layout) not in known:
                    self._add(not_run(row, layout, reason))

    def _rows(self, *kinds: RowKind) -> list[Row]:
        return [row for row in self.spec.chosen if row.kind in kinds]

    def _recorded(self) -> None:
        rows = self._rows(*_RECORDED)
        if not rows:
            return
        one = self._run(rows, self.found.one, recorded=True)
        again = self._run(rows, self.found.one, recorded=True, perturbed=True)
        for layout in self.found.others:
            self._compare_in(layout, rows, one, again)

    def _compare_in(
        self, layout: Layout, rows: Sequence[Row], one: Mapping[str, RowRun], again: Mapping[str, RowRun]
    ) -> None:
        """Runs rows in a layout, and compares each with what it was on one device, as soon as it is done."""
        left = {row.name: row for row in rows if row.kind is RowKind.COMPARED}

        def result_of(row: Row, run: RowRun) -> RowResult:
            return compare_row(row, layout, one[row.name], again[row.name], run, self._compression(layout))

        def finished(name: str, run: RowRun) -> None:
            if name in left:
                self._add(result_of(left.pop(name), run))

        runs = self._run(rows, layout, recorded=True, finished=finished)
        for row in rows:
            if row.name in left:
                self._add(result_of(row, runs[row.name]))
            elif row.kind is RowKind.LOADED:
                self._add(self._loaded(result_of(row, runs[row.name]), one[row.name], again[row.name], runs[row.name]))

    def _loaded(self, result: RowResult, one: RowRun, again: RowRun, run: RowRun) -> RowResult:
        """The result with that of the model which the layout has saved, loaded on one device: the worse of both."""
        if result.verdict is not ComparisonVerdict.PASSED:
            return result
        loaded = self.jobs.run([_LOADING], self.found.one, recorded=True, saved=run.saved)[_LOADING]
        compression = self._compression(result.layout)
        if compression == "none":
            on_one = compare_row(result.row, result.layout, part_of(one, _FURTHER), part_of(again, _FURTHER), loaded)
        else:
            # What was saved has been rounded, so that one device alone has no such weights.
            further = part_of(run, _FURTHER)
            on_one = compare_row(result.row, result.layout, loaded, loaded, further, compression)
        seconds = result.seconds + on_one.seconds
        if on_one.verdict is ComparisonVerdict.PASSED:
            return replace(result, seconds=seconds)
        return replace(on_one, seconds=seconds, where=f"loaded on 1 device: {on_one.where}")

    def _compression(self, layout: Layout) -> Compression:
        """The type in which gradients are sent in a layout: between workers alone."""
        return self.spec.compression if layout.workers > 1 else "none"

    def _copied(self) -> None:
        for row in self._rows(RowKind.COPIED):
            copied = {layout: self._copied_in(layout, row) for layout in self.found.others}
            self._find_way_around(row, copied)

    def _copied_in(self, layout: Layout, row: Row) -> RowResult:
        result = judge_copies(row, layout, self._run([row], layout, seconds=_COPY_SECONDS)[row.name])
        self._add(result)
        return result

    def _resumed(self) -> None:
        for row in self._rows(RowKind.RESUMED):
            for layout in self.found.others:
                self._tell([row], layout)
                begin = time.monotonic()
                result = run_killed(row, layout, self.jobs)
                self._add(replace(result, seconds=time.monotonic() - begin))

    def _timed(self) -> None:
        for row in self._rows(RowKind.TIMED):
            for layout in (self.found.one, *self.found.others):
                run = self._run([row], layout)[row.name]
                if run.problem:
                    self._add(failed(row, layout, run.problem, run.detail, run.seconds))
                    continue
                self.times.append((layout.label, layout.replicas, run.found[0]))
                self._add(RowResult(row, layout, ComparisonVerdict.PASSED, where="times below", seconds=run.seconds))

    def _find_way_around(self, row: Row, copied: Mapping[Layout, RowResult]) -> None:
        """Adds to the results of broken copies between GPUs what works instead."""
        broken = [result for result in copied.values() if result.verdict is not ComparisonVerdict.PASSED]
        # On one GPU nothing is copied from GPU to GPU.
        workers = next((each for each in copied if each.workers > 1 and each.gpus and not each.shares_gpus), None)
        if not broken or workers is None:
            return

        def attempt(way: Way) -> RowRun:
            self.listener.tell(f"{row.name} on {workers.label} with {way.words}")
            return self.jobs.run(
                [row.name],
                workers,
                seconds=_COPY_SECONDS,
                communication=way.communication,
                variables=dict(way.variables),
            )[row.name]

        works = find_way(row, workers, copied[workers], attempt)
        self.listener.tell(works)
        for result in broken:
            place = self.results.index(result)
            self.results[place] = replace(result, reason=f"{result.reason.rstrip('.')}. {works}")

    def _run(self, rows: Sequence[Row], layout: Layout, **options: Any) -> dict[str, RowRun]:
        self._tell(rows, layout, " again, from weights a rounding error away" if options.get("perturbed") else "")
        return self.jobs.run([row.name for row in rows], layout, **options)

    def _tell(self, rows: Sequence[Row], layout: Layout, more: str = "") -> None:
        what = rows[0].name if len(rows) == 1 else format_count(len(rows), "row")
        self.listener.tell(f"running {what} on {layout.label}{more}")

    def _add(self, result: RowResult) -> None:
        self.results.append(result)
        self.listener.result(result)
