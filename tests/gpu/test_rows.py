"""The rows of `tfdist selftest` on GPUs: trainings, mixed precision, XLA, saving, a kill, and copies to the bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.gpu.machine import gpu_count, needs
from tests.helpers.cli_process import ROOT
from tfdist.selftest.rows import ROWS, Row, SelftestSpec
from tfdist.selftest.selftest import Listener, run_selftest
from tfdist.verify.replicas.verification_report import ComparisonVerdict

pytestmark = [pytest.mark.gpu, needs(1)]


@pytest.mark.bound(900)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_on_all_gpus_and_on_several_workers(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(ROOT)
    report = run_selftest(SelftestSpec(only=(row.name,), timeout=860.0), Listener())
    told = "\n".join(f"{each.layout.label}: {each.reason}\n{each.detail}" for each in report.results)
    assert [each.verdict for each in report.results] == len(report.results) * [ComparisonVerdict.PASSED], told
    # All GPUs in one process and a worker for each, or two parts of the one GPU and two workers that share it.
    several = [each for each in report.results if each.layout.replicas > 1]
    assert sorted(each.layout.workers for each in several) == [1, max(gpu_count(), 2)]
    if row.name == "copies" and gpu_count() > 1:
        pairs = report.results[0].document["pairs"]
        assert len(pairs) == gpu_count() * (gpu_count() - 1)
        assert all(pair["source"].startswith("GPU:") for pair in pairs)
