"""What the board answers: what the terminal says, bounded, and nothing but text and numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.board.made_runs import CREATED, ELSEWHERE, HOSTILE, make_hostile_run, make_run
from tfdist.board import run_answers
from tfdist.board.board_folder import BoardFolder, UnknownRunError, key_of
from tfdist.board.list_answers import PAGE, compare_answer, list_answer
from tfdist.board.run_answers import log_answer, run_answer
from tfdist.cli.main import main
from tfdist.errors import RunDirError
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.run_dir.run_records import write_failure
from tfdist.rundir import RunDir, State, WorkerState

MOST_BYTES = 1 << 20


def said_by(*command: str) -> str:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def words(text: str) -> str:
    return " ".join(text.split())


def checked(answer: dict[str, Any]) -> str:
    """The answer as it is sent."""
    text = json.dumps(answer, allow_nan=False)
    assert len(text) < MOST_BYTES
    return text


def test_a_run_says_what_status_and_ledger_say(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    answer = run_answer(run.path)
    status, ledger = said_by("status", str(run)), said_by("ledger", str(run))
    assert answer["state"] == "done" and answer["over"]
    for line in answer["said"]:
        assert words(line).partition(", ")[0] in status
    for cells in answer["workers"]["rows"]:
        assert " ".join(cells[:6]) in status
    assert all(line in ledger for line in answer["ledger"]["said"])
    for kind in answer["ledger"]["kinds"]:
        assert words(f"{kind['label']} {kind['time']} {kind['percent']}") in ledger
    for row in answer["ledger"]["attempts"] + answer["ledger"]["recoveries"]:
        assert words(" ".join(row)) in ledger
    assert answer["curves"]["series"] == [
        {"name": "loss", "places": [0, 1, 2], "values": [2.0, 1.5, 1.0]},
        {"name": "val_loss", "places": [0, 1, 2], "values": [3.0, 2.5, 2.0]},
    ]
    assert answer["curves"]["seconds"] == [0.0, 10.0, 20.0]
    assert answer["metrics"][0] == {"name": "loss", "value": "1", "best": "best 1, epoch 3"}
    checked(answer)


def test_a_metric_of_some_epochs_alone_has_its_places(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    lines = ({"epoch": epoch, "loss": 1.0, **({"val_loss": 2.0} if epoch % 2 else {})} for epoch in range(5))
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    series = {one["name"]: one for one in run_answer(run.path)["curves"]["series"]}
    assert (series["val_loss"]["places"], series["val_loss"]["values"]) == ([1, 3], [2.0, 2.0])
    assert list_answer(BoardFolder(tmp_path), 0, "")["runs"][0]["spark"]["values"] == [2.0, 2.0]


def test_a_list_says_what_status_says_of_a_folder(tmp_path: Path) -> None:
    for number in range(3):
        make_run(tmp_path / f"run-{number}", CREATED + number)
    answer = list_answer(BoardFolder(tmp_path), 0, "")
    status = said_by("status", str(tmp_path))
    assert [run["cells"][0] for run in answer["runs"]] == ["run-2", "run-1", "run-0"]
    for run in answer["runs"]:
        assert words(" ".join((run["cells"][0], run["state"]))) in status
        assert words(run["cells"][-1]) in status
    assert answer["runs"][0]["spark"] == {"name": "val_loss", "values": [3.0, 2.5, 2.0]}
    assert not answer["single"] and answer["all"] == 3


def test_a_long_list_comes_in_pages_and_is_searched(tmp_path: Path) -> None:
    for number in range(PAGE + 3):
        RunDir(tmp_path / f"run-{number:02}").state_dir.mkdir(parents=True)
        (tmp_path / f"run-{number:02}" / "state" / "run.json").write_text(json.dumps({"created": CREATED + number}))
    folder = BoardFolder(tmp_path)
    first, second = list_answer(folder, 0, ""), list_answer(folder, PAGE, "")
    assert len(first["runs"]) == PAGE and [run["cells"][0] for run in second["runs"]] == ["run-02", "run-01", "run-00"]
    found = list_answer(folder, 0, "RUN-5")
    assert [run["cells"][0] for run in found["runs"]] == ["run-52", "run-51", "run-50"]
    assert (found["found"], found["all"]) == (3, PAGE + 3)


def test_an_empty_folder_and_an_empty_run(tmp_path: Path) -> None:
    assert list_answer(BoardFolder(tmp_path), 0, "")["all"] == 0
    run = RunDir(tmp_path / "a")
    run.state_dir.mkdir(parents=True)
    run.run_file.write_text("{}")
    answer = run_answer(run.path)
    assert answer["state"] == "starting" and "There is no ledger" in answer["ledger"]["error"]
    assert answer["workers"]["notes"] == ["no worker has written its state yet"]
    assert (answer["metrics"], answer["failures"], answer["logs"]) == ([], [], [])


def test_a_worker_that_is_slowest_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", phase="running")
    now = run.run_file.stat().st_mtime
    for index, busy in ((0, 0.1), (1, 0.2)):
        WorkerState(index, None, ELSEWHERE, 7, 0, State.STEP, 2, 418, now, moved=now, busy=busy).write(
            run.state_file(index)
        )
    answer = run_answer(run.path)
    assert (answer["state"], answer["workers"]["slowest"]) == ("running", 1)
    assert answer["workers"]["unusual"] == [True, False]  # the straggler


def test_failures_are_told_as_the_launcher_tells_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", phase="failed")
    write_failure(run.failure_file, (from_signal(1, 9, pid=7, last_lines=("a", "b")),))
    write_failure(run.attempt_failure_file(0), (from_signal(0, 15),))
    failures = run_answer(run.path)["failures"]
    assert [failure["title"] for failure in failures] == ["What ended the run", "What ended attempt 0"]
    assert failures[0]["lines"][0].startswith("error: worker 1 (") and "killed by SIGKILL" in failures[0]["lines"][0]
    assert failures[0]["lines"][1:4] == ["  the end of its log:", "    a", "    b"]


def test_a_log_is_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "a")
    file = run.log_file(1, 0)
    file.write_bytes(b"I0000 00:00:1795764111.4 1 port.cc:153] oneDNN\nepoch 1\repoch 2\r\n\tdone \xff\n")
    answer = log_answer(run.path, 1, 0, with_tf=False)
    assert answer["lines"] == ["epoch 2", "    done \ufffd"] and answer["hidden"] == 1 and not answer["cut"]
    assert len(log_answer(run.path, 1, 0, with_tf=True)["lines"]) == 3
    monkeypatch.setattr(run_answers, "_LOG_BYTES", 20)
    file.write_bytes(b"a line that is cut\nthe last\n")
    assert log_answer(run.path, 1, 0, with_tf=False)["lines"] == ["the last"]
    with pytest.raises(UnknownRunError):
        log_answer(run.path, 7, 0, with_tf=False)


def test_runs_are_compared(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / name, epochs=epochs, rate=rate) for name, epochs, rate in (("a", 2, 0.1), ("b", 3, 0.2))
    ]
    answer = compare_answer([run.path for run in runs])
    assert [run["name"] for run in answer["runs"]] == ["a", "b"]
    assert {row["label"]: row["cells"] for row in answer["settings"]} == {
        "fit.epochs": ["2", "3"],
        "optimizer.rate": ["0.1", "0.2"],
    }
    assert {"label": "loss, best", "cells": ["1.5 (epoch 2)", "1 (epoch 3)"], "best": [1]} in answer["metrics"]
    checked(answer)


def test_whatever_is_in_a_run_directory_answers_are_short_texts_and_finite_numbers(tmp_path: Path) -> None:
    run = make_hostile_run(tmp_path)
    make_run(tmp_path / "other")
    folder = BoardFolder(tmp_path)
    answers = [list_answer(folder, 0, ""), run_answer(run.path), log_answer(run.path, 0, 0, with_tf=True)]
    answers.append(compare_answer(folder.runs()))
    for answer in answers:
        text = checked(answer)
        assert "\\u202e" not in text and "\\u001b" not in text
    names = [series["name"] for series in answers[1]["curves"]["series"]]
    assert len(names) == len(HOSTILE) + 1 and max(map(len, names)) == 300
    with run.metrics_file.open("a") as file:
        file.write('{"epoch": 2, "loss": NaN, "accuracy": Infinity, "x": 1e999, "y": 123456789}\n')
    checked(run_answer(run.path))


def test_many_and_much(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    lines = ({"epoch": epoch, **{f"metric_{number:03}": 0.123456789 for number in range(70)}} for epoch in range(2000))
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for index in range(300):
        WorkerState(index, None, "x" * 5000, 7, 0, State.STEP, 2, 418, 5.0).write(run.state_file(index), durable=False)
    run.state_file(99999).write_text("{")
    run.log_file(0, 0).write_text("y" * 5_000_000)
    answer = run_answer(run.path)
    checked(answer)
    assert len(answer["workers"]["rows"]) == 256 and answer["workers"]["more"] == 44
    assert len(answer["curves"]["series"]) == 60 and answer["curves"]["more"] == 10
    assert answer["curves"]["epochs"][-1] == 2000 and len(answer["curves"]["epochs"]) <= 400
    checked(log_answer(run.path, 0, 0, with_tf=True))


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "device", "sparse"])
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    secret = tmp_path / "secret"
    secret.write_text('{"epoch": 0, "loss": 42.0}\n')
    for file in (
        run.metrics_file,
        run.ledger_file,
        run.config_file,
        run.failure_file,
        run.job_file,
        run.log_file(0, 0),
    ):
        file.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "sparse":
            with file.open("wb") as made:
                made.truncate(1 << 40)
        else:
            file.symlink_to(secret if kind == "link" else "/dev/zero")
    answer = run_answer(run.path)
    assert "error" in answer["ledger"] and "42" not in checked({"curves": answer["curves"]})
    if kind == "sparse":
        assert "more than the board reads" in answer["ledger"]["error"]
    else:
        compare_answer([run.path, make_run(tmp_path / "b").path])
        with pytest.raises(RunDirError, match="worker-0.0.log cannot be read"):
            log_answer(run.path, 0, 0, with_tf=True)


def test_nothing_is_written(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "a")

    def all_files() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}

    before = all_files()
    folder = BoardFolder(tmp_path / "runs")
    list_answer(folder, 0, "")
    run_answer(folder.find(key_of(run.path)))
    log_answer(run.path, 0, 0, with_tf=True)
    compare_answer([run.path, run.path])
    assert all_files() == before
