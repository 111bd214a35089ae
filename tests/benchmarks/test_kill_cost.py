from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import pytest

from benchmarks import kill_cost
from tfdist.rundir import RunDir, State, WorkerState, ledger_lines
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEvent, LedgerInterval

SECONDS = 60


def test_the_script_that_is_killed_trains_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kill_cost, "BATCH", 8)
    original, asked = keras.Model.fit, {}

    def short(model: keras.Model, batches: object, **options: object) -> None:
        asked.update(options)
        original(model, batches, **{**options, "steps_per_epoch": 2, "callbacks": []})

    monkeypatch.setattr("tfdist.training.api.callbacks", lambda **keeping: [keeping])
    monkeypatch.setattr(keras.Model, "fit", short)
    kill_cost.train("mlp", 3)
    assert asked["callbacks"] == [{"every_steps": 3, "every_minutes": None, "keep": 2}]


def test_a_kill_is_split_up_by_the_ledger(tmp_path: Path) -> None:
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

    (kill,) = kill_cost.measure("mlp", 10, 1, run, start=training)
    assert kill.again == 11
    assert kill.seconds["ending"] == pytest.approx(1.0) and kill.seconds["compile"] == pytest.approx(2.0)
    table = kill_cost.render("mlp", 10, [kill], 5_000_000).splitlines()
    assert table[0] == "mlp, two workers, a checkpoint of 5.00 MB every 10 steps, worker 1 killed"
    assert table[2].startswith("notice") and table[-1] == "steps done again: 11"


@pytest.mark.slow
def test_killing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_line: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command_line("mlp", "--every", 20, "--kills", 1)
    kill_cost.main()
    assert "worker 1 killed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
