from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.rundir import RunDir

RUN = RunDir(Path("/runs/a"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [  # these names are a contract: people's scripts read them
        (RUN.config_file, "config.yaml"),
        (RUN.history_file, "history.json"),
        (RUN.metrics_file, "metrics.jsonl"),
        (RUN.resumes_file, "resumes.jsonl"),
        (RUN.model_file, "model.keras"),
        (RUN.failure_file, "failure.json"),
        (RUN.events_dir, "events"),
        (RUN.logs_dir, "logs"),
        (RUN.state_dir, "state"),
        (RUN.log_file(2, 0), "logs/worker-2.0.log"),
        (RUN.state_file(2), "state/worker-2.json"),
        (RUN.error_file(2, 1), "state/worker-2.1.error.json"),
    ],
)
def test_names(path: Path, expected: str) -> None:
    assert path == Path("/runs/a") / expected


def test_path_is_absolute_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunDir(Path("runs/a"))
    monkeypatch.chdir("/")
    assert run.path == tmp_path / "runs" / "a"
    assert str(run) == str(tmp_path / "runs" / "a")
