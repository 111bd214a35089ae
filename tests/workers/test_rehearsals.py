"""`tfdist plan` of a script and `tfdist train --fast-dev-run`, on two workers, leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.cli_process import tfdist
from tests.helpers.marks import slow
from tests.workers.worker_scripts import BOUND, SCRIPTS

SCRIPT = SCRIPTS / "rehearsed.py"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the model of an earlier run."""
    (tmp_path / "model.keras").write_text("of an earlier run")
    (tmp_path / "log.csv").write_text("of an earlier run")
    return tmp_path


def left_in(place: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in place.iterdir()}


@pytest.mark.parametrize("mode", ["zero3", slow("none")])
def test_a_script_is_planned_by_its_first_fit(mode: str, place: Path) -> None:
    before = left_in(place)
    done = tfdist("plan", "--nproc", 2, "--shard", mode, "--json", SCRIPT, "--write", cwd=place, timeout=BOUND)
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    data = {"kind": "arrays", "steps": 4, "batch_size": 16, "samples": 49, "last_batch": 1}
    assert (plan["data"], plan["rows"], plan["epochs"], plan["replicas"]) == (data, [8, 8], 7, 2)
    weights = 4 * 128 + 128 + 128 + 1
    assert (plan["model"]["parameters"], plan["sends"]["gradients"]) == (weights, 4 * weights)
    assert (plan["sends"]["shard"], plan["memory"]["modes"]["zero3"]["optimizer"]) == (mode, 0)
    said = " ".join(line["text"] for line in plan["exactness"])
    assert "(Centered) is called with the samples of all replicas" in said
    assert "checked on its first batch, it is what one device computes" in said
    assert plan["seconds"]["step"] > 0 and plan["memory"]["peak"]["bytes"] > 1 << 20
    assert left_in(place) == before


def test_a_fast_dev_run_makes_two_steps(place: Path) -> None:
    before = left_in(place)
    done = tfdist("train", "--fast-dev-run", "--nproc", 2, SCRIPT, cwd=place, timeout=BOUND)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"epochs": 1, "steps": 2, "args": []}
    assert "2 steps of training, at most 2 of each fit and of each evaluation. Nothing was kept." in done.stderr
    assert left_in(place) == before


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        slow("import keras\n", 2, "ended without a fit. Expected a Keras script"),
        ("import sys\nprint('a mistake')\nsys.exit(3)\n", 2, "ended with exit code 3 without a fit."),
        slow("def f():\n    return 1 / 0\nf()\n", 4, "ZeroDivisionError: division by zero"),
        ("import time\ndef f():\n    time.sleep(99)\nf()\n", 4, "There is no plan after 6 s: the script is at "),
    ],
    ids=["no fit", "exits", "raises", "hangs"],
)
def test_a_script_that_does_not_come_to_fit(text: str, code: int, said: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    done = tfdist("plan", "--timeout", 6 if "sleep" in text else 60, script, cwd=tmp_path, timeout=BOUND)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr and "site-packages" not in done.stderr and "tfdist/training" not in done.stderr
    assert list(tmp_path.iterdir()) == [script]
