"""A round on a GPU, rehearsed on CPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT

BOUND = 240  # seconds: three processes of TensorFlow, on what is left of a busy machine


def lines(*arguments: object, code: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "tools.gpu_round", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND - 10)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.mark.bound(BOUND)
def test_two_parts_of_a_rehearsal(tmp_path: Path) -> None:
    """By the paths of NCCL, which one of the two takes."""
    out = tmp_path / "round"
    options = ["--rehearse", "--only", "one-off,workers-off", "--rows", 1, "--minutes", 8, "--at-once", 1]
    said, _ = lines(*options, "--out", out)
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert found[0]["rehearse"] and "versions" in found[0]["machine"]
    outcomes = {line["part"]: line for line in found if "part" in line}
    assert {name: line["verdict"] for name, line in outcomes.items()} == {"one-off": "passed", "workers-off": "passed"}
    facts = outcomes["workers-off"]["result"]["facts"]
    assert (facts["replicas"], facts["nccl"], facts["tensor_float_32"]) == (2, "ring", False)
    [rows] = [line["rows"] for line in found if line.get("job") == "workers-off"]
    assert [(row["row"], row["verdict"]) for row in rows] == [("plain", "passed")]
    page = (out / "report.md").read_text()
    assert page in said and "A rehearsal" in page and "| plain " in page


def test_without_a_gpu_it_is_only_rehearsed(tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    said, _ = lines("--out", tmp_path / "round", code=2)
    assert "There is no GPU here" in said and "--rehearse" in said and not (tmp_path / "round").exists()


def test_a_part_that_there_is_not() -> None:
    _, error = lines("--rehearse", "--only", "one-auto,speed", code=2)
    assert "Received: speed" in error


@pytest.mark.slow
@pytest.mark.bound(2 * BOUND)
def test_parts_that_are_timed(tmp_path: Path) -> None:
    out = tmp_path / "round"
    lines("--rehearse", "--only", "collectives,step-jit-off,speed-mlp", "--minutes", 8, "--out", out)
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    results = {line["part"]: line["result"] for line in found if "part" in line}
    assert all(each["right"] for each in results["collectives"]["values"])
    assert results["collectives"]["milliseconds"]["all_reduce"]["median"] > 0
    assert results["step-jit-off"]["rates"][0] > 0
    assert [run["trainer"] for run in results["speed-mlp"]["runs"]] == ["plain", "tfdist", "workers", "replicas"]
    assert "## speed-mlp" in (out / "report.md").read_text()
