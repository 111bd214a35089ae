"""`tfdist selftest` on real runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli_process import ROOT, tfdist
from tests.helpers.marks import slow
from tests.helpers.processes import processes_with
from tests.helpers.waiting import PATIENCE, until
from tfdist.selftest.rows import Row, RowResult, SelftestSpec
from tfdist.selftest.selftest import Listener, run_selftest
from tfdist.selftest.selftest_report import SelftestReport

BOUND = 600  # seconds: up to eight jobs, one after the other


@pytest.mark.bound(BOUND)
@pytest.mark.parametrize(
    ("names", "emulated", "workers"),
    [
        (["saving"], "", "2 workers"),
        slow(["dense", "saving"], "", "2 workers"),
        slow(["copies", "dense", "resume"], "nccl,count=1", "2 workers on 1 GPU"),
    ],
)
def test_rows_that_are_the_same_on_devices_and_on_workers(
    tmp_path: Path, names: list[str], emulated: str, workers: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    options = [*(word for name in names for word in ("--only", name)), "-o", tmp_path / "report"]
    environ = {"TMPDIR": str(temporary), "TFDIST_EMULATE_GPUS": emulated}
    done = tfdist("selftest", *options, timeout=BOUND - 10, environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not any(temporary.iterdir()), "a run directory was left behind"
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    rows: list[dict[str, Any]] = document["rows"]
    assert {(row["row"], row["layout"]) for row in rows} == {
        (name, layout) for name in names for layout in ("2 logical devices", workers)
    }
    for row in rows:
        assert row["verdict"] == "passed" and row["greatest"] <= row["allowed"]
        assert f"{row['row']} " in done.stdout
    # Neither of both is a comparison of nothing.
    assert all(row["of"] for row in rows)
    assert document["machine"]["tensorflow"]["tensorflow"] in (tmp_path / "report" / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_rows_with_the_options_of_a_training(tmp_path: Path) -> None:
    options = ["--only", "dense", "--only", "saving", "--only", "statistics"]
    options += ["--compression", "bfloat16", "--batch-norm", "replica", "--kernels", "tensorflow"]
    options += ["-o", tmp_path / "report"]
    done = tfdist("selftest", *options, timeout=BOUND - 10)
    assert done.returncode == 6, done.stdout + done.stderr
    document = json.loads((tmp_path / "report" / "report.json").read_text())
    assert document["options"] == {
        "batch_norm": "replica",
        "communication": "auto",
        "compression": "bfloat16",
        "kernels": "tensorflow",
    }
    rows = {(row["row"], row["workers"]): row for row in document["rows"]}
    # Statistics of each replica's own are not those of one device; and what workers send is rounded, and no more.
    parted = {place for place, row in rows.items() if row["verdict"] != "passed"}
    assert parted == {("statistics", 1), ("statistics", 2)}
    for row in ("dense", "saving"):
        assert rows[row, 1]["greatest"] < 1e-5 < rows[row, 2]["greatest"] < 2e-2


@pytest.mark.slow
@pytest.mark.bound(BOUND)
def test_a_row_that_differs_is_named_and_one_that_dies_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(ROOT)
    rows = (Row("dying", "dies"), Row("wrong", "another learning rate"), Row("right", "a training"))
    results: list[RowResult] = []
    report: SelftestReport = run_selftest(
        SelftestSpec(rows=rows, matrix="tests.workers.odd_rows"), Listener(result=results.append)
    )
    assert report.code == 6
    assert list(report.results) == results
    found = {(result.row.name, result.layout.workers): result for result in results}
    assert {place: result.verdict.value for place, result in found.items()} == {
        ("dying", 1): "failed",
        ("wrong", 1): "parted",
        ("right", 1): "passed",
        ("dying", 2): "failed",
        ("wrong", 2): "parted",
        ("right", 2): "passed",
    }
    for workers in (1, 2):
        assert "SIGKILL" in found["dying", workers].reason
        assert "PARTED  at step 1" in found["wrong", workers].detail
    assert not any(tmp_path.iterdir())


@pytest.mark.bound(160)
def test_ctrl_c_ends_everything_and_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mark = f"TMPDIR={temporary}"
    command = [sys.executable, "-m", "tfdist", "selftest", "--only", "dense", "-o", str(tmp_path / "report")]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # A worker of the first job is at work.
        until(lambda: any(temporary.glob("*/*/run/state/worker-0.json")), 90, "no worker came to work")
        assert len(processes_with(mark)) > 1
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=40 * PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 130
    assert "stopped: nothing was written, all runs have ended" in said
    assert not any(temporary.iterdir())
    assert not (tmp_path / "report").exists()
    assert processes_with(mark) == []
