"""Tests of the levels of lines.

Tests of the records of `--log-format json`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.launch.logs.line_splitter import ScreenSplitter
from tfdist.launch.logs.log_records import LineLevels, LogRecords, level_of, recorded_streams
from tfdist.launch.logs.terminal import STDERR, STDOUT, Terminal
from tfdist.launch.peers.messages import Stop
from tfdist.launch.progress_display import progress_record
from tfdist.launch.run_dir.closing_report import failure_fields
from tfdist.launch.run_progress import RunProgress
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker_options import WorkerOptions
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("epoch 1/3  loss 0.5", "info"),
        ("", "info"),
        ("error: worker 1 failed", "error"),
        ("tfdist: WARNING: The state file cannot be written", "warning"),
        ("tfdist: INFO: 2 replicas", "info"),
        ("tfdist: error: no", "error"),
        ("errors fell by 3 %", "info"),
        ("WARNING:absl:At this time", "warning"),
        ("CRITICAL:root:over", "error"),
        ("2026-01-31 12:00:00,123 - my.module - ERROR - no such file", "error"),
        ("[2026-01-31 12:00:00] [DEBUG] cache hit", "debug"),
        ("W0000 00:00:1700000000.000000 123 gpu_device.cc:2344] Cannot dlopen", "warning"),
        ("W1123 12:00:00.000000 123 gpu_device.cc:2344] Cannot dlopen", "warning"),
        ("2026-01-31 12:00:00.123456: E external/local_xla/xla/x.cc:1] no", "error"),
        ("2026-01-31 12:00:00.123456: I tensorflow/core/x.cc:1] AVX2", "info"),
        ("/a/b.py:12: UserWarning: it is old", "warning"),
        ("ValueError: no", "error"),
        ("tfdist.errors.DataError: no", "error"),
        ("KeyboardInterrupt", "error"),
        ("the ERRORS of INFORMATION", "info"),
        (f"{'x' * 200} ERROR ", "info"),  # it says so of something else
    ],
)
def test_level(line: str, level: str) -> None:
    assert level_of(line) == level


def test_a_traceback_is_an_error_to_its_end() -> None:
    lines = [
        "step 1",
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    f()",
        "my_module.Oh: no",
        "step 2",
    ]
    levels = LineLevels()
    assert [levels.next(line) for line in lines] == ["info", "error", "error", "error", "error", "info"]


KNOWN = {"time": "2026-01-31T12:00:00.250Z", "run": "digits", "host": "h"}


def records() -> LogRecords:
    return LogRecords("digits", "h", clock=lambda: 1769860800.25)


def read(lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_lines_of_a_worker() -> None:
    made = records()
    made.begin(2)
    found = read(made.of_worker(1, "stderr", b"\x1b[31mWARNING:root:caf\xc3\xa9\x1b[0m\n\n  \nbad \xff\n"))
    about = {**KNOWN, "source": "worker", "worker": 1, "attempt": 2, "stream": "stderr"}
    assert found == [
        {**about, "level": "warning", "message": "WARNING:root:café"},
        {**about, "level": "info", "message": "bad \ufffd"},
    ]


def test_streams_of_workers_have_tracebacks_of_their_own() -> None:
    made = records()
    made.of_worker(0, "stderr", b"Traceback (most recent call last):\n")
    assert read(made.of_worker(1, "stderr", b"  indented\n"))[0]["level"] == "info"
    assert read(made.of_worker(0, "stderr", b"  indented\n"))[0]["level"] == "error"
    made.begin(1)
    assert read(made.of_worker(0, "stderr", b"  indented\n"))[0]["level"] == "info"


def test_messages_of_the_launcher() -> None:
    made = records()
    about = {**KNOWN, "source": "launcher"}
    assert made.of_launcher("") == b""
    found = read(made.of_launcher("error: a\n  b", step=None))
    assert found == [{**about, "level": "error", "message": "error: a\n  b"}]
    assert read(made.of_launcher("a", "warning", event="restart")) == [
        {**about, "level": "warning", "event": "restart", "message": "a"}
    ]
    assert "run" not in read(LogRecords().of_launcher("a"))[0]
    assert b"\\ud800" not in made.of_launcher("a\ud800") and read(made.of_launcher("a\ud800"))


def test_a_terminal_writes_records_of_both() -> None:
    out = io.BytesIO()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as shown, os.fdopen(writing, "wb", 0) as stderr:
        terminal = Terminal({STDOUT: out, STDERR: stderr}, prefix=True, records=records())
        assert isinstance(terminal.splitter(), ScreenSplitter)
        terminal.begin(3)
        terminal.write(1, STDOUT, b"a\nb\n")
        assert terminal.say("worker 1 is slow", event="straggler")
        assert terminal.say("")
        said = read(os.read(shown.fileno(), 4096))
    assert [(line["worker"], line["attempt"], line["stream"], line["message"]) for line in read(out.getvalue())] == [
        (1, 3, "stdout", "a"),
        (1, 3, "stdout", "b"),
    ]
    about = {**KNOWN, "level": "info", "source": "launcher", "event": "straggler"}
    assert said == [{**about, "message": "worker 1 is slow"}]


def test_what_is_printed_becomes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    below = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    for name, stream in below.items():
        monkeypatch.setattr(sys, name, stream)
    with recorded_streams(records()):
        print("in two\nlines")
        print()
        print("a", "b", file=sys.stderr)
        print("error: cut off", end="", file=sys.stderr)
        assert not sys.stderr.isatty() and sys.stderr.buffer is below["stderr"].buffer
    assert sys.stdout is below["stdout"]
    assert [line["message"] for line in read(below["stdout"].buffer.getvalue())] == ["in two\nlines"]  # type: ignore[attr-defined]
    written = read(below["stderr"].buffer.getvalue())  # type: ignore[attr-defined]
    assert [(line["level"], line["message"]) for line in written] == [("info", "a b"), ("error", "error: cut off")]


def test_a_stream_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with recorded_streams(records()):
        print("cut off", end="")
        stream.close()
    assert sys.stdout is stream


def test_progress_has_numbers() -> None:
    told = RunProgress(
        State.STEP, 3, 12, 7, 12, {"loss": "0.25", "odd": "nan", "text": "?"}, 1831.70001, 0.03125, 1.77, 16.3
    )
    assert progress_record(told) == {
        "event": "progress",
        "state": "step",
        "epoch": 4,
        "epochs": 12,
        "step": 7,
        "steps": 12,
        "metrics": {"loss": 0.25, "odd": None, "text": None},
        "samples_per_second": 1831.7,
        "input_wait": 0.0312,
        "epoch_seconds_left": 1.8,
        "run_seconds_left": 16.3,
        "gpu_memory_bytes": None,
    }
    assert progress_record(RunProgress(State.COMPILING, 0, 1, 0))["samples_per_second"] is None


def test_a_failure_has_its_parts() -> None:
    first = Failure(1, "h2", 5.0, "signal", "killed by SIGKILL", exit_code=4, type="SIGKILL", step=16, log="/l")
    assert failure_fields(RunResult(4, (first, Failure(0, "h1", 6.0, "exit", "left")))) == {
        "event": "failed",
        "level": "error",
        "exit_code": 4,
        "worker": 1,
        "worker_host": "h2",
        "failure": "signal",
        "error": "SIGKILL",
        "step": 16,
        "log": "/l",
    }
    stopped = failure_fields(RunResult(130, stop=Stop(130, "Ctrl-C")))
    assert stopped == {"event": "stopped", "level": "warning", "exit_code": 130}
    assert failure_fields(RunResult(0)) == {}


def test_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="--log-format must be one of text, json. Received: 'xml'"):
        WorkerOptions(log_format="xml")  # type: ignore[arg-type]
