from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfdist.cli.main import VERBS, main
from tfdist.rundir import create_run_dir


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_verbs_says_what_their_help_says(verb: str) -> None:
    """The list stands apart from the commands, which are not imported to show it."""
    result = CliRunner().invoke(main, [verb, "--help"])
    assert result.exit_code == 0
    assert VERBS[verb][1].rstrip(".") in " ".join(result.output.split())


def test_help_lists_every_verb() -> None:
    output = CliRunner().invoke(main, ["--help"]).output
    for verb, (_, text) in VERBS.items():
        assert verb in output
        assert text in " ".join(output.split())


def test_an_unknown_verb() -> None:
    result = CliRunner().invoke(main, ["trian"])
    assert result.exit_code == 2
    assert "No such command 'trian'" in result.output


def test_ctrl_c_before_anything_runs_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    result = CliRunner().invoke(main, ["train"])
    assert result.exit_code == 130
    assert result.stderr == "stopped: Ctrl-C, SIGINT\n"


def test_python_dash_m_is_the_same_command() -> None:
    command = [sys.executable, "-m", "tfdist", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("Usage: tfdist [OPTIONS]")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("options", [[], ["--watch"]])
def test_a_terminal_whose_encoding_lacks_a_character(encoding: str, options: list[str], tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "a", name="digits-\u6570")
    run.failure_file.write_text('{"index": 0, "host": "h", "time": 1.0, "kind": "exception", "message": "\\u6570"}')
    command = [sys.executable, "-m", "tfdist", "status", str(run), *options]
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, timeout=60, env=environ)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"digits-")
