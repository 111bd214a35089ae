"""`make run` and `make test` begin with `tools/make_environment`: where it cannot make one, it says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OLD = "echo 3.10"
WITHOUT_ENSUREPIP = f'[[ $2 == *ensurepip* ]] && exit 1; exec {sys.executable} "$@"'


def fake_python(folder: Path, script: str, name: str = "python3") -> Path:
    """A program that is found before the machine's own Python."""
    program = folder / name
    program.write_text(f"#!/usr/bin/env bash\n{script}\n")
    program.chmod(0o755)
    return program


def make_environment(venv: Path, path: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": f"{path}{os.pathsep}/usr/bin{os.pathsep}/bin", **variables}
    command = [ROOT / "tools" / "make_environment", venv]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=150)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (OLD, ["Received: python3, which is 3.10.", "PYTHON=python3.12 make run"]),
        ("exit 127", ["Received: python3, which is no Python that runs."]),
        (WITHOUT_ENSUREPIP, ["makes no virtual environments", "sudo apt install python3.1"]),
    ],
    ids=["too old", "none", "without python3-venv"],
)
def test_a_python_that_will_not_do_is_said_with_the_remedy(script: str, said: list[str], tmp_path: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        fake_python(tmp_path, script, name)
    done = make_environment(tmp_path / "venv", tmp_path)
    assert (done.returncode, done.stderr[:7]) == (2, "error: ")
    assert [words for words in said if words not in done.stderr] == []
    assert not (tmp_path / "venv").exists()


def test_a_python_that_is_asked_for_is_not_replaced_by_another(tmp_path: Path) -> None:
    old = fake_python(tmp_path, OLD, "python3.10")
    done = make_environment(tmp_path / "venv", Path(sys.executable).parent, PYTHON=str(old))
    assert done.returncode == 2
    assert f"Received: {old}, which is 3.10." in done.stderr


def test_a_folder_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    done = make_environment(tmp_path, Path(sys.executable).parent)
    assert done.returncode == 2
    assert "is no virtual environment" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_targets_are_what_the_readme_says() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "VENV=elsewhere", "run", "test"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=150)
    assert done.stdout.splitlines() == [
        'tools/make_environment "elsewhere"',
        '"elsewhere/bin/tfdist" train configs/digits.yaml',
        'tools/make_environment "elsewhere" dev',
        '"elsewhere/bin/python" -m pytest tests/unit',
    ]
