from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.helpers.ledger_lines import killed_once
from tfdist.cli.main import main
from tfdist.rundir import RunDir, create_run_dir, ledger_lines


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = create_run_dir(tmp_path / "a", name="digits")
    for entry in killed_once():
        ledger_lines.append_entry(made.ledger_file, entry)
    return made


def test_a_table(run: RunDir) -> None:
    result = CliRunner().invoke(main, ["ledger", str(run)])
    assert result.exit_code == 0
    assert result.stdout.startswith(f"digits: {run}\ngoodput 34.3 %: ")


def test_json_and_a_picture(run: RunDir, tmp_path: Path) -> None:
    picture = tmp_path / "picture.html"
    run.metrics_file.write_text('{"epoch": 0, "loss": 2.0, "val_loss": 1.5}\n{"epoch": 1, "loss": 1.0}\n')
    result = CliRunner().invoke(main, ["ledger", str(run), "--json", "--html", str(picture)])
    assert json.loads(result.stdout)["steps"] == 80
    page = picture.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "loss 1 after epoch 2, its lowest. val_loss 1.5 after epoch 1, its lowest." in page


def test_no_ledger_yet(tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "a", name="digits")
    result = CliRunner().invoke(main, ["ledger", str(run)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: There is no ledger {run.ledger_file}.")
    run.ledger_file.write_text('{"who": "chi')
    result = CliRunner().invoke(main, ["ledger", str(run)])
    assert result.exit_code == 2 and "0 lines, and 1 that are damaged" in result.stderr


def test_a_picture_in_a_directory_that_is_missing(run: RunDir, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["ledger", str(run), "--html", str(tmp_path / "absent" / "a.html")])
    assert result.exit_code == 2 and f"there is no directory {tmp_path}/absent" in result.stderr
    assert "choose another --output" in result.stderr and "--run-dir" not in result.stderr


def test_a_picture_of_a_run_whose_path_is_no_utf8(run: RunDir, tmp_path: Path) -> None:
    moved = run.path.rename(tmp_path / os.fsdecode(b"b\xff\x1b"))
    picture = tmp_path / "a.html"
    result = CliRunner().invoke(main, ["ledger", str(moved), "--html", str(picture)])
    assert result.exit_code == 0, result.exception
    assert "/b??<" in picture.read_text()


def test_an_overwritten_run_has_no_ledger(run: RunDir) -> None:
    again = create_run_dir(run.path, name="digits", overwrite=True)
    assert not again.ledger_file.exists()
