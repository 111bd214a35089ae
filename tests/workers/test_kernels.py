"""By which kernels a run computes: what it says, what stands in its directory, and what a resume with others says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tfdist.config import load_config


@pytest.mark.slow
@pytest.mark.bound(100)
def test_a_run_that_resumes_with_other_kernels(tmp_path: Path) -> None:
    begin = ("train", ROOT / "configs" / "digits.yaml", "--run-dir", tmp_path / "run", "--resume", "auto")
    first = tfdist(*begin, "--kernels", "tensorflow", "--set", "fit.epochs=1")
    assert first.returncode == 0, first.stderr
    assert "without oneDNN" in first.stdout.splitlines()[0]
    assert load_config(tmp_path / "run" / "config.yaml").kernels == "tensorflow"
    second = tfdist(*begin, "--kernels", "onednn", "--set", "fit.epochs=2")
    assert second.returncode == 0, second.stderr
    assert "(oneDNN)" in second.stdout.splitlines()[0]
    assert "resume with --kernels tensorflow" in second.stderr
    assert load_config(tmp_path / "run" / "config.yaml").kernels == "onednn"
