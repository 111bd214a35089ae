from __future__ import annotations

import dataclasses
import math

from tests.unit.reports.status.moments import FAILURE, NOW, status, worker
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.status.status_table import render
from tfdist.rundir import State
from tfdist.rundir.process_presence import Presence


def test_the_whole_table() -> None:
    workers = [worker(0), worker(1, busy=0.15, moved=2.5), worker(2, rate=0.0, busy=0.0, state=State.CALLBACK)]
    assert render(status(*workers)).splitlines() == [
        "digits: /r, started 2 h 5 min ago",
        "running",
        "",
        "worker  host  pid  state     epoch  step  samples/s  last move  busy a step",
        "     1  h1    101  step          3   418     12,031  2.5 s ago       150 ms  "
        "straggler: 50 % slower, costs 50 ms a step",
        "     0  h0    100  step          3   418     12,031    1 s ago       100 ms",
        "     2  h2    102  callback      3   418          -    1 s ago            -",
    ]


def second_line(**options: object) -> str:
    return render(status(worker(0), worker(1), **options)).splitlines()[1]  # type: ignore[arg-type]


def test_the_line_above_the_table() -> None:
    told = "worker 1 (h1, pid 101) failed in epoch 3 after step 418: ValueError: no sample"
    assert second_line(phase="failed", failure=FAILURE) == f"failed: {told}"
    assert second_line(phase="failed") == "stopped: somebody stopped it, by a signal"
    assert second_line(attempt=2, earlier={1: FAILURE}) == f"running, attempt 2 after {told}"
    assert second_line(phase="restarting", attempt=2, earlier={2: FAILURE}) == f"restarting after attempt 2: {told}"
    assert second_line(phase="done", attempt=2) == "done, attempt 2"
    assert second_line(launcher=Presence.GONE).startswith("seems dead: its launcher (pid 99 on h0) is gone")


def test_where_the_log_of_a_failure_is() -> None:
    lines = render(status(worker(0), phase="failed", failure=FAILURE)).splitlines()
    assert lines[2] == "  its log: /r/logs/worker-1.0.log (on h1)"


def test_the_metrics_of_the_last_epoch() -> None:
    metrics = EpochMetrics(2, NOW - 90, {"loss": 0.25, "accuracy": 0.5, "val_loss": math.nan})
    lines = render(dataclasses.replace(status(worker(0)), metrics=metrics)).splitlines()
    assert lines[2:4] == ["after epoch 3, 90 s ago: loss 0.25  accuracy 0.5  val_loss nan", ""]
    narrow = render(dataclasses.replace(status(worker(0)), metrics=metrics), width=40).splitlines()
    assert narrow[2:5] == ["after epoch 3, 90 s ago: loss 0.25", "  accuracy 0.5  val_loss nan", ""]


def test_workers_that_are_not_in_the_table_are_named() -> None:
    lines = render(status(worker(3), unreadable={4: "worker-4.json cannot be read"}, absent=(0, 1, 2))).splitlines()
    assert lines[-2:] == [
        "worker 4: worker-4.json cannot be read",
        "worker(s) 0-2: nothing here; other machines may have run directories of their own",
    ]
    assert render(status()).splitlines()[-1] == "no worker has written its state yet"


def test_it_fits_the_terminal() -> None:
    many = [worker(index, busy=0.1 + index / 10_000) for index in range(64)]
    lines = render(status(*many), width=40, height=10).splitlines()
    assert len(lines) == 10
    assert all(len(line) <= 40 for line in lines)
    assert lines[4].split()[0] == "63"  # the slowest stay
    assert lines[-1] == "and 59 faster workers"
    assert len(render(status(*many)).splitlines()) == 4 + 64
    slow = [worker(index, busy=0.1 + index / 10) for index in range(64)]  # most of them with a line of their own
    lines = render(status(*slow), width=79, height=10).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["worker", "63", "straggler:", "62", "straggler:", "and"]
    assert lines[-1] == "and 62 faster workers"
    assert [line.split()[0] for line in render(status(*slow), width=79, height=2).splitlines()[3:]] == [
        "worker",
        "63",
        "straggler:",
        "and",
    ]


def test_what_is_unusual_is_not_cut() -> None:
    lines = render(status(worker(0), worker(1, busy=0.15)), width=79, height=20).splitlines()
    assert lines[3:] == [
        "worker  host  pid  state  epoch  step  samples/s  last move  busy a step",
        "     1  h1    101  step       3   418     12,031    1 s ago       150 ms",
        "  straggler: 50 % slower, costs 50 ms a step",
        "     0  h0    100  step       3   418     12,031    1 s ago       100 ms",
    ]
    narrow = render(status(worker(0), worker(1, busy=0.15)), width=30, height=20).splitlines()
    assert narrow[5:7] == ["  straggler: 50 % slower,", "    costs 50 ms a step"]
    absent = render(status(worker(3), absent=(0, 1, 2)), width=60).splitlines()
    assert absent[-2:] == ["worker(s) 0-2: nothing here; other machines may have run", "  directories of their own"]


def test_messages_cannot_control_the_terminal() -> None:
    nasty = dataclasses.replace(FAILURE, message="\x1b[2Jgone\x07 " + "x" * 10_000)
    picture = render(status(worker(0, host="h\x1b[H"), phase="failed", failure=nasty))
    assert all(line.isprintable() for line in picture.splitlines())
    assert len(picture) < 1000
