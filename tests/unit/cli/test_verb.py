from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tfdist.cli.verb import Verb
from tfdist.errors import ClusterError, ConfigError, DataError, FormingError, TfdistError, WorkerFailedError

ROOT = Path(__file__).resolve().parents[3]


def verb_that_raises(error: BaseException) -> click.Command:
    @click.command(cls=Verb)
    @click.option("--verbose", is_flag=True)
    def command(verbose: bool) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(ConfigError, 2), (ClusterError, 2), (FormingError, 3), (WorkerFailedError, 4), (DataError, 5)],
)
def test_an_error_is_its_text_and_its_exit_code(error: type[TfdistError], exit_code: int) -> None:
    result = CliRunner().invoke(verb_that_raises(error("No sample in a.csv.")), [])
    assert result.exit_code == exit_code
    assert result.stderr == "error: No sample in a.csv.\n"
    assert result.stdout == ""


def test_verbose_adds_the_traceback() -> None:
    result = CliRunner().invoke(verb_that_raises(DataError("No sample.")), ["--verbose"])
    assert result.exit_code == 5
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: No sample.\n")


def test_an_unexpected_exception_keeps_its_traceback() -> None:
    result = CliRunner().invoke(verb_that_raises(RuntimeError("a bug")), [])
    assert isinstance(result.exception, RuntimeError)


def test_a_working_directory_that_was_removed_is_one_error(tmp_path: Path) -> None:
    program = f"""
import os, sys
os.mkdir({str(tmp_path / "gone")!r})
os.chdir({str(tmp_path / "gone")!r})
os.rmdir(os.getcwd())
from tfdist.cli.main import main
main(["status", "run"])
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: The working directory has been removed"), ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_file_that_is_missing_by_a_fault_keeps_its_traceback() -> None:
    result = CliRunner().invoke(verb_that_raises(FileNotFoundError("a bug")), [])
    assert isinstance(result.exception, FileNotFoundError)
