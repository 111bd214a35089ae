from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main
from tfdist.rundir import RunDir, State, WorkerState, create_run_dir
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import JobState

COMMAND = [sys.executable, "-m", "tfdist", "status"]


def state(index: int, **changed: object) -> WorkerState:
    """A worker that is this very process."""
    now = time.time()
    made = WorkerState(index, None, socket.gethostname(), os.getpid(), 0, State.STEP, 2, 418, now, moved=now, busy=0.1)
    return dataclasses.replace(made, **changed)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = create_run_dir(tmp_path / "a", name="digits")
    for index in (0, 1):
        state(index, busy=0.1 + index / 10).write(made.state_file(index))
    return made


def say(run: RunDir, phase: str) -> None:
    JobState(phase, 0, socket.gethostname(), os.getpid(), time.time() - 60).write(run.job_file)


def test_once(run: RunDir) -> None:
    result = CliRunner().invoke(main, ["status", str(run)])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"digits: {run}, started ")
    assert lines[1] == "running"
    assert [line.split()[0] for line in lines[3:]] == ["worker", "1", "0"]
    assert "straggler" in lines[4]


def test_metrics_of_the_last_epoch(run: RunDir) -> None:
    run.metrics_file.write_text('{"epoch": 0, "loss": 2.0}\n{"epoch": 1, "accuracy": 0.5, "loss": 1.5}\n')
    result = CliRunner().invoke(main, ["status", str(run)])
    assert result.stdout.splitlines()[2] == "after epoch 2: loss 1.5  accuracy 0.5"
    document = json.loads(CliRunner().invoke(main, ["status", str(run), "--json"]).stdout)
    assert document["metrics"] == {"epoch": 1, "time": None, "values": {"loss": 1.5, "accuracy": 0.5}}


def test_json_once(run: RunDir) -> None:
    result = CliRunner().invoke(main, ["status", str(run), "--json"])
    document = json.loads(result.stdout)
    assert (document["status"], [worker["index"] for worker in document["workers"]]) == ("running", [1, 0])


def test_a_failed_run_is_no_failed_command(run: RunDir) -> None:
    say(run, "failed")
    Failure(1, "h", time.time(), "exception", "boom", type="ValueError").write(run.failure_file)
    result = CliRunner().invoke(main, ["status", str(run)])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1] == "failed: worker 1 (h) failed: ValueError: boom"


@pytest.mark.parametrize("options", [[], ["--json"], ["--watch"], ["--watch", "--json"]])
def test_no_run_directory(tmp_path: Path, options: list[str]) -> None:
    result = CliRunner().invoke(main, ["status", str(tmp_path), *options])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {tmp_path} is not a run directory. Expected ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """./runs with three runs, one of which was removed but for what marks it, and what is no run."""
    monkeypatch.chdir(tmp_path)
    for name, created in (("a", 1.0), ("b", 3.0), ("c", 2.0)):
        made = create_run_dir(tmp_path / "runs" / name, name=name)
        made.run_file.write_text(json.dumps({"name": name, "created": created}))
    state(0, state=State.FINISHED).write(made.state_file(0))
    made.metrics_file.write_text('{"epoch": 1, "loss": 1.5}\n')
    (tmp_path / "runs" / "notes").mkdir()
    return tmp_path / "runs"


@pytest.mark.parametrize("arguments", [[], ["runs"]])
def test_a_folder_of_runs(folder: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["status", *arguments])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"{folder}: 3 runs"
    assert [line.split()[:2] for line in lines[3:]] == [["b", "starting"], ["c", "done"], ["a", "starting"]]
    assert lines[4].endswith("3   418  loss 1.5")


def test_a_folder_of_runs_as_json(folder: Path) -> None:
    document = json.loads(CliRunner().invoke(main, ["status", "--json"]).stdout)
    assert (document["folder"], document["over"]) == (str(folder), False)
    newest, done, _ = document["runs"]
    assert (newest["run_dir"], newest["status"], newest["step"], newest["metrics"]) == (
        f"{folder}/b", "starting", None, None,
    )  # fmt: skip
    assert (done["name"], done["over"], done["epoch"], done["step"]) == ("c", True, 2, 418)
    assert done["metrics"]["values"] == {"loss": 1.5} and "workers" not in done


def test_watching_a_folder_ends_with_its_runs(folder: Path) -> None:
    for name in ("a", "b"):
        run = RunDir(folder / name)
        state(0, state=State.FINISHED).write(run.state_file(0))
    result = CliRunner().invoke(main, ["status", "--watch"])
    assert result.exit_code == 0 and result.stdout.count(": 3 runs") == 1


def test_a_run_of_the_list_that_cannot_be_read(folder: Path) -> None:
    state_dir = folder / "a" / "logs"
    state_dir.rmdir()
    state_dir.write_text("")
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("a cannot be read: ")


def test_no_folder_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["status"])
    assert result.exit_code == 2 and result.stderr.startswith(f"error: {tmp_path}/runs is not a run directory.")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "x"])
def test_an_interval_is_a_time(run: RunDir, value: str) -> None:
    assert CliRunner().invoke(main, ["status", str(run), "--interval", value]).exit_code == 2


def test_it_loads_neither_tensorflow_nor_numpy(run: RunDir) -> None:
    script = "import sys\nfrom tfdist.cli.main import main\ntry:\n    main(['status', sys.argv[1]])\nfinally:\n" + (
        "    print(sorted({'tensorflow', 'keras', 'numpy', 'yaml'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script, str(run)], capture_output=True, text=True, timeout=150)
    assert result.stdout.splitlines()[-1] == "[]"


def test_watching_ends_with_the_run(run: RunDir) -> None:
    command = [*COMMAND, str(run), "--watch", "--json", "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        assert json.loads(watcher.stdout.readline())["status"] == "running"
        for index in (0, 1):
            state(index, state=State.FINISHED).write(run.state_file(index))
        *_, last = watcher.stdout.readlines()
        assert watcher.wait(30) == 0
    document = json.loads(last)
    assert (document["status"], document["over"]) == ("done", True)


def test_watching_into_a_pipe_and_ctrl_c(run: RunDir) -> None:
    command = [*COMMAND, str(run), "--watch", "--interval", "0.05"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as watcher:
        assert watcher.stdout is not None and watcher.stderr is not None
        while watcher.stdout.readline() != "running\n":
            pass
        state(0, step=500).write(run.state_file(0))
        while " 500 " not in (line := watcher.stdout.readline()):
            assert "\x1b" not in line
        watcher.send_signal(signal.SIGINT)
        watcher.stdout.read()
        assert watcher.wait(30) == 130
        assert watcher.stderr.read() == ""


def read_until(master: int, found: Callable[[str], object]) -> str:
    text = ""
    while not found(text):
        text += os.read(master, 65536).decode()
    return text


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_watching_on_a_terminal(run: RunDir, number: int, code: int) -> None:
    master, slave = pty.openpty()
    command = [*COMMAND, str(run), "--watch", "--interval", "0.05"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave) as watcher:
        os.close(slave)
        text = read_until(master, lambda text: text.count("running") >= 3)
        # What it says to the terminal: up, clear what is below. Nothing that would have to be undone.
        assert set(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", text)) <= {"\x1b[6A", "\x1b[J"}
        watcher.send_signal(number)
        assert watcher.wait(30) == code
    os.close(master)
