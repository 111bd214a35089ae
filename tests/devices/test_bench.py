"""The other benchmarks run, at their smallest; what they measure is nothing for a test."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest

from benchmarks import __main__ as whole
from benchmarks import checkpoint_cost, fit, image_reading, kill_cost, models, paired_commands, record_reading
from tfdist.rundir import RunDir, State, WorkerState, ledger_lines
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval

SECONDS = 60


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The last line that was printed, which is JSON."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def given(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["a benchmark", *map(str, arguments)])


def _last(command: list[str], option: str) -> int:
    """Where it stands for the last time: `tfdist train` has one of its own before its target's."""
    return len(command) - 1 - command[::-1].index(option)


@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_takes_its_data(name: str) -> None:
    x, y = models.data(name, 2)
    model = models.build(name)
    assert x.shape == (2, *models.shape(name))
    assert math.isfinite(model.train_on_batch(x, y)[0])


def test_fit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fit, "BATCH", 8)
    given(monkeypatch, "mlp", 2, "--cores", whole._cores())
    fit.main()
    said = told(capsys)
    assert said["model"] == "mlp" and said["steps_per_second"] > 0


def test_a_thread_that_ends_meanwhile_is_pinned_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, listed = os.sched_getaffinity(0), os.listdir("/proc/self/task")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    monkeypatch.setattr(fit.os, "listdir", lambda path: [str(thread.native_id), *listed])
    fit.pin(sorted(mine))
    assert os.sched_getaffinity(0) == mine


@pytest.mark.parametrize("reader", ["tensorflow", "tfdist"])
def test_reading_records(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record_reading, "RECORDS", 100)
    given(monkeypatch, reader, record_reading.write_files(tmp_path), "--seconds", 1e-3)
    record_reading.main()
    assert told(capsys)["steps_per_second"] > 0


def test_an_epoch_is_read_however_little_time_there_is() -> None:
    assert record_reading.batches_per_second([0], seconds=0.0) > 0


@pytest.mark.parametrize("reader", ["tensorflow", "tfdist"])
def test_reading_images(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(image_reading, "IMAGES", 2 * image_reading.CLASSES)
    monkeypatch.setattr(image_reading, "SIZE", 32)
    given(monkeypatch, reader, image_reading.write_folder(tmp_path), "--seconds", 1e-3)
    image_reading.main()
    assert told(capsys)["steps_per_second"] > 0


def test_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(checkpoint_cost, "BATCH", 8)
    monkeypatch.chdir(tmp_path)  # it writes beside where it is started
    given(monkeypatch, "mlp", "--window", 1, "--pairs", 2)
    checkpoint_cost.main()
    *costs, summary = capsys.readouterr().out.splitlines()
    assert len(costs) == 2
    assert re.match(r"mlp, one device, a checkpoint of 5\.\d\d MB every 50 steps: ", summary)
    assert not list(tmp_path.iterdir())
    given(monkeypatch, "mlp", "--pairs", 1)
    with pytest.raises(SystemExit):  # before it measures for minutes
        checkpoint_cost.main()


def test_pairs_run_in_turn_and_tell_the_ratio(tmp_path: Path) -> None:
    def command(name: str, rate: float) -> list[str]:
        code = f"open('order', 'a').write('{name}'); print('noise'); print('{{\"steps_per_second\": {rate}}}')"
        return ["env", "--chdir", str(tmp_path), sys.executable, "-c", code]

    ratio = paired_commands.compare(command("a", 3.0), command("b", 2.0), pairs=2, timeout=SECONDS)
    assert (tmp_path / "order").read_text() == "abab"
    assert str(ratio) == "1.50 (1.50 to 1.50); medians 3.0 and 2.0 steps/s over 2 pairs"
    with pytest.raises(ValueError, match="printed no line of JSON"):
        paired_commands.compare([sys.executable, "-c", "print(1)"], [], timeout=SECONDS)
    with pytest.raises(subprocess.CalledProcessError):
        paired_commands.compare([sys.executable, "-c", "raise SystemExit(3)"], [], timeout=SECONDS)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [(["mlp", "cnn"], 2), (["wide", "--peer", "peer {model} {steps}"], 1), (["data", "--peer", "p {files}"], 3)],
)
def test_the_whole_compares_what_it_is_asked_to(
    arguments: list[str], lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With commands that `fit` and `data` take."""
    compared: list[tuple[list[str], list[str]]] = []

    def compare(first: list[str], second: list[str], *, pairs: int) -> str:
        compared.append((first, second))
        return "a ratio"

    monkeypatch.setattr(whole, "compare", compare)
    monkeypatch.setattr(record_reading, "RECORDS", 3)
    given(monkeypatch, *arguments)
    whole.main()
    assert capsys.readouterr().out.count("a ratio") == len(compared) == lines
    modules = [command[_last(command, "-m") + 1] for command, _ in compared]
    assert modules == ["benchmarks.record_reading" if "data" in arguments else "benchmarks.fit"] * lines


class Ended(Exception):
    """Ends a training that has no end."""


def test_what_is_killed_trains_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_cost, "BATCH", 8)
    original, asked = keras.Model.fit, {}

    def short(model: keras.Model, batches: object, **options: object) -> None:
        asked.update(options)
        original(model, batches, **{**options, "steps_per_epoch": 2, "callbacks": []})

    monkeypatch.setattr("tfdist.training.api.callbacks", lambda **keeping: [keeping])
    monkeypatch.setattr(keras.Model, "fit", short)
    kill_cost.train("mlp", 3)
    assert asked["callbacks"] == [{"every_steps": 3, "every_minutes": None, "keep": 2}]


def test_a_kill_is_split_up_by_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is made up: one worker's process and what its launcher and the chief would write."""
    run = RunDir(tmp_path / "run")
    run.state_dir.mkdir(parents=True)
    run.run_file.write_text(json.dumps({"name": "killed", "created": time.time()}))
    begun = time.time()

    @contextlib.contextmanager
    def training(name: str, every: int, restarts: int, run: RunDir) -> Iterator[subprocess.Popen[bytes]]:
        victim, launcher = (subprocess.Popen(["sleep", str(SECONDS)]) for _ in range(2))
        for index in (0, 1):
            state = WorkerState(index, None, "here", victim.pid, 0, State.STEP, 0, 3 * every, begun)
            state.write(run.state_file(index))
        notices = [
            LedgerEvent(0, begun, AttemptPhase.RUNNING, since=begun),
            LedgerInterval(0, begun, begun + 1, {"step": 1.0}, 30, 30),
            LedgerEvent(0, begun + 4, AttemptPhase.RESTARTING, why="killed", step=31, noticed=begun + 3),
            LedgerEvent(1, begun + 5, AttemptPhase.RUNNING),
            LedgerInterval(1, begun + 5, begun + 7, {"compile": 2.0}, 1, 21),
        ]
        for entry in notices:
            ledger_lines.append_entry(run.ledger_file, entry)
        try:
            yield launcher
            assert victim.wait(SECONDS) < 0
        finally:
            for process in (victim, launcher):
                process.kill()
                process.wait()

    monkeypatch.setattr(kill_cost, "_training", training)
    (kill,) = kill_cost.measure("mlp", 10, 1, run)
    assert kill.again == 11
    assert kill.seconds["ending"] == pytest.approx(1.0) and kill.seconds["compile"] == pytest.approx(2.0)
    table = kill_cost.render("mlp", 10, [kill], 5_000_000).splitlines()
    assert table[0] == "mlp, two workers, a checkpoint of 5.00 MB every 10 steps, worker 1 killed"
    assert table[2].startswith("notice") and table[-1] == "steps done again: 11"


@pytest.mark.slow
def test_killing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    given(monkeypatch, "mlp", "--every", 20, "--kills", 1)
    kill_cost.main()
    assert "worker 1 killed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
