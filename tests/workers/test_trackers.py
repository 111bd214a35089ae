"""Trackers of experiments by their own callbacks, as their page says it; where they are installed."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist

for library in ("tensorboard", "wandb", "mlflow.keras.callback"):
    pytest.importorskip(library)

EPOCHS = 2


def test_the_script_of_the_page_writes_on_the_chief_alone(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trackers.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "train.py").write_text(script)
    environ = {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    done = tfdist("train", "--nproc", "2", "--run-dir", "run", "train.py", timeout=150, cwd=tmp_path, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "board" / "train").glob("*.v2"))) == 1
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 1
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        assert store.execute("select count(*) from runs").fetchall() == [(1,)]
        losses = store.execute("select step from metrics where key = 'loss' order by step").fetchall()
    assert losses == [(epoch,) for epoch in range(EPOCHS)]
