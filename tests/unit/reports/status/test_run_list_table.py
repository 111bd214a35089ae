from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.unit.reports.status.moments import FAILURE, NOW, snapshot, status, worker
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.status.run_list import RunList, newest_first
from tfdist.reports.status.run_list_table import render
from tfdist.reports.status.run_status import RunStatus
from tfdist.rundir import RunDir
from tfdist.rundir.process_presence import Presence


def run(name: str, ago: float | None, found: RunStatus, metrics: EpochMetrics | None = None) -> RunStatus:
    created = None if ago is None else NOW - ago
    made = dataclasses.replace(snapshot(), run=RunDir(Path("/runs") / name), created=created)
    return dataclasses.replace(found, snapshot=made, metrics=metrics)


METRICS = EpochMetrics(1, None, {"loss": 0.5, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
RUNS = [
    run("old", 9500, status(worker(0), phase="failed", failure=FAILURE), METRICS),
    run("unknown", None, status(phase=None, launcher=None)),
    run("new", 60, status(worker(0, step=1500), worker(1, step=1499, epoch=1)), METRICS),
    run("dead", 7500, status(worker(0), launcher=Presence.GONE)),
    run("stopped", 7600, status(worker(0), phase="failed")),
]
LIST = RunList(Path("/runs"), NOW, newest_first(RUNS), {})


def test_the_newest_first_with_what_went_wrong() -> None:
    assert render(LIST).splitlines() == [
        "/runs: 5 runs",
        "",
        "run      state              age  epoch   step  last metrics",
        "new      running           60 s      3  1,500  loss 0.5  a 1  b 2  c 3  and 1 more",
        "dead     seems dead   2 h 5 min      3    418  "
        "its launcher (pid 99 on h0) is gone without having said how the run ended",
        "stopped  stopped      2 h 6 min      3    418  -",
        "old      failed      2 h 38 min      3    418  "
        "loss 0.5  a 1  b 2  c 3  and 1 more; worker 1: ValueError: no sample",
        "unknown  starting             -      -      -  -",
    ]


def test_what_does_not_fit_beside_a_run_is_below_it() -> None:
    lines = render(LIST, width=60).splitlines()
    assert lines[2:8] == [
        "run      state              age  epoch   step",
        "new      running           60 s      3  1,500",
        "  loss 0.5  a 1  b 2  c 3  and 1 more",
        "dead     seems dead   2 h 5 min      3    418",
        "  its launcher (pid 99 on h0) is gone without having said",
        "    how the run ended",
    ]
    assert lines[-1] == "unknown  starting             -      -      -"
    assert render(LIST, width=200) == render(LIST)


def test_it_fits_the_terminal() -> None:
    lines = render(LIST, width=50, height=9).splitlines()
    assert len(lines) == 9 and all(len(line) <= 50 for line in lines)
    assert lines[3].startswith("new ") and lines[5].startswith("dead ") and lines[-1] == "and 3 older"
    assert max(map(len, render(LIST, width=20, height=4).splitlines())) <= 20


def test_a_run_that_cannot_be_read_is_named() -> None:
    lines = render(RunList(Path("/runs"), NOW, (), {Path("/runs/a\x1b"): "it is a file"})).splitlines()
    assert lines == ["/runs: 1 run", "", "a? cannot be read: it is a file"]


def test_a_list_is_over_when_no_run_can_go_on() -> None:
    assert not LIST.is_over
    left = tuple(found for found in LIST.runs if found.snapshot.run.path.name not in ("new", "unknown"))
    assert dataclasses.replace(LIST, runs=left).is_over
