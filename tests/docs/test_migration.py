"""The scripts of the pages on migration: those after run on one device and on several, with the same numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.marks import slow
from tests.helpers.pages import DOCS, ROOT

MIGRATION = DOCS / "migration"
DIGITS = ROOT / "examples" / "data" / "digits.npz"
BOUND = 120  # seconds
OUTPUTS = {"multi_worker": ["digits.keras"], "accelerate": []}
"""What a script writes besides the data that it reads; the others write weights."""

SCRIPTS = sorted(folder.name for folder in MIGRATION.iterdir() if folder.is_dir())
QUICK = {"pytorch_ddp"}
"""What the default tests run; on two workers they run the script for the strategy."""


def result(folder: str, where: Path, *launcher: str) -> tuple[float, float]:
    """Runs the script after, and returns the loss and accuracy that it prints."""
    outputs = OUTPUTS.get(folder, ["digits.weights.h5"])
    command = [sys.executable, *launcher, str(MIGRATION / folder / "after.py"), str(DIGITS), *outputs]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((where / name).exists() for name in outputs)
    found = re.search(r"test loss (\d+\.\d+), test accuracy (\d\.\d+)", done.stdout)
    assert found, done.stdout
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("page", sorted(MIGRATION.glob("*.md")), ids=lambda page: page.stem)
def test_pages_show_both_scripts_and_link_to_them(page: Path) -> None:
    text = page.read_text()
    folder = page.stem.replace("-", "_")
    for script in ("before.py", "after.py"):
        assert f"[{script}]({folder}/{script})" in text
        assert f'\n```python\n--8<-- "migration/{folder}/{script}"\n```\n' in text
    assert folder in SCRIPTS


@pytest.mark.parametrize("folder", [name if name in QUICK else slow(name) for name in SCRIPTS])
def test_scripts_train_on_several_devices(tmp_path: Path, folder: str) -> None:
    assert result(folder, tmp_path, "-m", "tfdist", "train", "--logical-devices", "2")[1] > 0.85


@pytest.mark.parametrize("folder", [slow(name) for name in SCRIPTS])
def test_two_workers_give_the_numbers_of_one_device(tmp_path: Path, folder: str) -> None:
    alone = result(folder, tmp_path)
    two = result(folder, tmp_path, "-m", "tfdist", "train", "--nproc", "2")
    assert two[0] == pytest.approx(alone[0], rel=1e-3)
    assert two[1] == pytest.approx(alone[1], abs=1.1 / 360)


def test_a_script_for_the_strategy_runs_as_it_is(tmp_path: Path) -> None:
    script = MIGRATION / "multi_worker" / "before.py"
    command = [sys.executable, "-m", "tfdist", "train", "--nproc", "2", "--run-dir", "run", str(script), str(DIGITS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Epoch 5/5" in done.stdout
    assert (tmp_path / "digits.keras").exists()
