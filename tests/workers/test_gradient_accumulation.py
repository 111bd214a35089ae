"""What two workers accumulate and save inside of an accumulation is what one does, and goes on on any number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.exactness.comparison import assert_same
from tests.helpers.cli_process import UNCHECKED, tfdist

SCRIPT = Path(__file__).parent / "scripts" / "accumulating.py"
BOUND = 100

pytestmark = pytest.mark.bound(3 * BOUND + 60)


def run(folder: Path, workers: int, *arguments: object) -> list[dict[str, Any]]:
    """What each worker said."""
    files, run_dir = folder / f"files-{workers}", folder / f"run-{workers}-{len(arguments)}"
    files.mkdir(exist_ok=True)
    done = tfdist("train", "--nproc", workers, "--run-dir", run_dir, "--step-timeout", 60, *UNCHECKED,
                  SCRIPT, files, *arguments, timeout=BOUND)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(run_dir / "logs" / f"worker-{index}.0.log").read_text() for index in range(workers)]
    return [json.loads(log.strip().splitlines()[-1]) for log in logs]


@pytest.mark.slow
def test_saved_on_two_workers_and_gone_on(tmp_path: Path) -> None:
    (one,) = run(tmp_path, 1)
    chief, other = run(tmp_path, 2)
    # The optimizer's variables on the chief are what it saves; of what is accumulated the other worker has nothing.
    assert_same(one, chief)
    for stage in one:
        assert_same(one[stage]["weights"], other[stage]["weights"], stage)
    (alone,) = run(tmp_path, 1, tmp_path / "files-2" / "model.keras")
    assert_same(one["gone on"], alone["gone on"])
