"""`--jit`: what reaches a worker, and that a verification compares compiled with uncompiled in both directions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist

SCRIPT = """\
import tensorflow as tf
from tfdist.runtime.strategy_settings import settings_of
print("jit:", settings_of(tf.distribute.get_strategy()).jit)
"""


def test_the_option_reaches_the_strategy_of_a_worker(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = tfdist("train", "--jit", "off", "--run-dir", tmp_path / "run", script)
    assert done.returncode == 0, done.stderr
    assert "jit: off" in done.stdout


@pytest.mark.slow
@pytest.mark.bound(200)
@pytest.mark.parametrize(("jit", "label"), [("on", "XLA off"), ("off", "XLA on")])
def test_a_verification_compares_with_the_opposite(tmp_path: Path, jit: str, label: str) -> None:
    options = ["--jit", jit, "--also", "xla", "--replicas", 1, "--steps", 2, "--report", tmp_path / "report.json"]
    done = tfdist("verify", *options, ROOT / "configs" / "digits.yaml", timeout=190, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(run["run"], run["verdict"]) for run in report["comparisons"]] == [(label, "passed")]
