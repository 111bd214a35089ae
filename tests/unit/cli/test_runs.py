"""`tfdist runs`: lists and compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main
from tfdist.rundir import create_run_dir


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two run directories with configs."""
    made = [create_run_dir(tmp_path / name, name="digits") for name in ("a", "b")]
    for epochs, one in enumerate(made, 1):
        one.config_file.write_text(f"fit: {{epochs: {epochs}}}\n")
    return [str(one.path) for one in made]


def test_runs_are_compared(two: list[str]) -> None:
    shown = CliRunner().invoke(main, ["runs", "compare", *two])
    assert shown.exit_code == 0, shown.output
    assert [line.split() for line in shown.output.splitlines() if line.startswith("fit")] == [["fit.epochs", "1", "2"]]
    document = json.loads(CliRunner().invoke(main, ["runs", "compare", "--json", *two]).output)
    assert document["configs"] == {"fit.epochs": {"values": {"a": "1", "b": "2"}, "best": []}}
    same = CliRunner().invoke(main, ["runs", "compare", two[0], two[0]])
    assert same.output.splitlines()[0].split() == [two[0][:39] + "…" if len(two[0]) > 40 else two[0]] * 2


def test_one_run_is_not_compared(two: list[str], tmp_path: Path) -> None:
    one = CliRunner().invoke(main, ["runs", "compare", two[0]])
    assert (one.exit_code, "Expected two run directories or more" in one.stderr) == (2, True)
    none = CliRunner().invoke(main, ["runs", "compare", two[0], str(tmp_path / "absent")])
    assert none.exit_code == 2 and "absent" in none.stderr


def test_runs_are_listed(two: list[str]) -> None:
    listed = CliRunner().invoke(main, ["runs", "ls", str(Path(two[0]).parent)])
    assert listed.exit_code == 0 and ": 2 runs" in listed.output
