from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main
from tfdist.launch.run_dir import run_stop
from tfdist.launch.run_dir.run_stop import StopMeans, StoppedRun
from tfdist.rundir import RunDir


@pytest.mark.parametrize("how", StopMeans)
@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_what_was_stopped_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: StopMeans, has_checkpoints: bool
) -> None:
    asked: list[tuple[str, float]] = []

    def stop_run(run_dir: str, seconds: float) -> StoppedRun:
        asked.append((run_dir, seconds))
        return StoppedRun(RunDir(tmp_path), 57, 2.0, how, has_checkpoints)

    monkeypatch.setattr(run_stop, "stop_run", stop_run)
    result = CliRunner().invoke(main, ["stop", "runs/a", "--grace", "9"])
    assert result.exit_code == 0
    assert asked == [("runs/a", 9.0)]
    first, *others = result.output.splitlines()
    assert first.startswith(f"stopped: {tmp_path} at step 57, in 2")
    assert (how.value in first) == (how is not StopMeans.ASKED)
    assert others == [f"to go on: the same command with --resume auto --run-dir {tmp_path}"][: len(others)]
    assert bool(others) == has_checkpoints


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["stop", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not a run directory" in result.output
