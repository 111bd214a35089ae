"""Copies and sums between GPUs, and the ways around those that are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.machine import gpu_count, needs
from tests.helpers.cli_process import ROOT
from tfdist.launch.signals import Signals
from tfdist.selftest.copy_judgement import WAYS, Way, judge_copies
from tfdist.selftest.layouts import Layout, layouts
from tfdist.selftest.row_jobs import Deadline, RowJobs
from tfdist.selftest.rows import ROWS, RowResult, SelftestSpec
from tfdist.verify.replicas.verification_report import ComparisonVerdict

pytestmark = [pytest.mark.gpu, needs(2)]
_AS_IT_IS = Way("as it is")


def copied(folder: Path, layout: Layout, way: Way) -> RowResult:
    """What comes of the copies in a layout; it fails the test where a bit is another one."""
    row = next(row for row in ROWS if row.name == "copies")
    with Signals() as signals, Deadline(280.0) as deadline:
        jobs = RowJobs(SelftestSpec(), folder, signals, deadline)
        run = jobs.run([row.name], layout, communication=way.communication, variables=dict(way.variables))[row.name]
    result = judge_copies(row, layout, run)
    assert result.verdict is ComparisonVerdict.PASSED, f"{result.reason}\n{result.detail}"
    return result


@pytest.mark.parametrize("way", [_AS_IT_IS, *WAYS], ids=lambda way: way.words)
def test_sums_of_workers_in_every_way(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    _, workers = layouts(gpu_count(), None, None, None).others
    sums = copied(tmp_path, workers, way).document["sums"]
    assert len(sums) == 2 * gpu_count()


@pytest.mark.parametrize("communication", ["auto", "ring"])
def test_copies_between_every_two_gpus(communication: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    together, _ = layouts(gpu_count(), None, None, None).others
    way = Way(communication, communication="ring" if communication == "ring" else "auto")
    pairs = copied(tmp_path, together, way).document["pairs"]
    names = {f"GPU:{number}" for number in range(gpu_count())}
    assert {(pair["source"], pair["target"]) for pair in pairs} == {(a, b) for a in names for b in names if a != b}
