""""""

from __future__ import annotations

import dataclasses
import fcntl
import io
import json
import math
import os
import pty
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from tests.unit.reports.status.moments import FAILURE, NOW, snapshot, status, worker
from tests.unit.screen import shown
from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.status.run_status import RunStatus
from tfdist.reports.status.status_reader import RunList, newest_first
from tfdist.reports.status.status_table import LiveDisplay, render, render_list, to_json
from tfdist.rundir import RunDir, State
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
    assert render_list(LIST).splitlines() == [
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
    lines = render_list(LIST, width=60).splitlines()
    assert lines[2:8] == [
        "run      state              age  epoch   step",
        "new      running           60 s      3  1,500",
        "  loss 0.5  a 1  b 2  c 3  and 1 more",
        "dead     seems dead   2 h 5 min      3    418",
        "  its launcher (pid 99 on h0) is gone without having said",
        "    how the run ended",
    ]
    assert lines[-1] == "unknown  starting             -      -      -"
    assert render_list(LIST, width=200) == render_list(LIST)


def test_it_fits_the_terminal_of_run_list_table() -> None:
    lines = render_list(LIST, width=50, height=9).splitlines()
    assert len(lines) == 9 and all(len(line) <= 50 for line in lines)
    assert lines[3].startswith("new ") and lines[5].startswith("dead ") and lines[-1] == "and 3 older"
    assert max(map(len, render_list(LIST, width=20, height=4).splitlines())) <= 20


def test_a_run_that_cannot_be_read_is_named() -> None:
    lines = render_list(RunList(Path("/runs"), NOW, (), {Path("/runs/a\x1b"): "it is a file"})).splitlines()
    assert lines == ["/runs: 1 run", "", "a? cannot be read: it is a file"]


def test_a_list_is_over_when_no_run_can_go_on() -> None:
    assert not LIST.is_over
    left = tuple(found for found in LIST.runs if found.snapshot.run.path.name not in ("new", "unknown"))
    assert dataclasses.replace(LIST, runs=left).is_over


def test_the_document() -> None:
    found = status(
        worker(0), worker(1, busy=0.15), attempt=1, earlier={0: FAILURE}, unreadable={2: "torn"}, absent=(3,)
    )
    document = json.loads(json.dumps(to_json(found)))
    assert {key: document[key] for key in ("name", "run_dir", "status", "over", "attempt")} == {
        "name": "digits",
        "run_dir": "/r",
        "status": "running",
        "over": False,
        "attempt": 1,
    }
    assert document["failure"]["step"] == 418
    assert document["unreadable"] == [{"index": 2, "why": "torn"}] and document["absent"] == [3]


def test_a_worker_in_the_document() -> None:
    slow, quick = to_json(status(worker(0), worker(1, busy=0.15)))["workers"]
    assert (slow["index"], slow["state"], slow["epoch"], slow["process"], slow["quiet"]) == (1, "step", 2, "alive", 1.0)
    assert slow["straggler"] == {"slower": pytest.approx(0.5), "cost": pytest.approx(0.05), "others": 0.1}
    assert quick["straggler"] is None


def test_metrics_in_the_document() -> None:
    assert to_json(status(worker(0)))["metrics"] is None
    metrics = EpochMetrics(2, 5.0, {"loss": 0.25, "val_loss": math.nan, "b": math.inf})
    document = to_json(dataclasses.replace(status(worker(0)), metrics=metrics))
    assert document["metrics"] == {"epoch": 2, "time": 5.0, "values": {"loss": 0.25, "val_loss": None, "b": None}}
    json.dumps(document, allow_nan=False)


class Screen:
    """A pseudo-terminal with so many columns and lines."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w")
        self.resize(20, 6)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def text(self, lines: int) -> str:
        """What comes, up to the end of so many lines."""
        return shown(self.master, lines)

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.close()


def test_pictures_are_redrawn_in_place(screen: Screen) -> None:
    board = LiveDisplay(screen.stream)
    assert board.size() == (19, 5)
    board.show("a\nb\nc")
    assert screen.text(3) == "a\nb\nc\n"
    board.show("d")
    assert screen.text(1) == "\x1b[3A\r\x1b[Jd\n"
    board.show("e\nf")
    assert screen.text(2) == "\x1b[1A\r\x1b[Je\nf\n"


def test_a_terminal_that_has_become_narrower(screen: Screen) -> None:
    board = LiveDisplay(screen.stream)
    board.show("123456789012\nb")
    screen.text(2)
    screen.resize(5, 6)
    board.show("c")
    assert screen.text(1) == "\x1b[4A\r\x1b[Jc\n"  # the first line takes three rows now


def test_pictures_follow_one_another_in_a_pipe() -> None:
    stream = io.StringIO()
    board = LiveDisplay(stream)
    assert board.size() == (None, None)
    board.show("a\nb")
    board.show("c\nd")
    assert stream.getvalue() == "a\nb\n\nc\nd\n"
