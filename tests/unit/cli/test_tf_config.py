from __future__ import annotations

import json
import shlex

import pytest
from click.testing import CliRunner

from tfdist.cli.main import main

WORKERS = "a:20000,b:20001"
EXPECTED = {"cluster": {"worker": ["a:20000", "b:20001"]}, "task": {"type": "worker", "index": 1}}


def test_json() -> None:
    result = CliRunner().invoke(main, ["tf-config", "--workers", WORKERS, "--index", "1"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == EXPECTED


def test_shell() -> None:
    result = CliRunner().invoke(main, ["tf-config", "--workers", WORKERS, "--index", "1", "--format", "shell"])
    command, assignment = shlex.split(result.stdout)
    name, _, value = assignment.partition("=")
    assert (command, name, json.loads(value)) == ("export", "TF_CONFIG", EXPECTED)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", WORKERS, "--index", "2"],
        ["--workers", "a", "--index", "0"],
        ["--index", "0"],
        ["--workers", WORKERS],
    ],
    ids=["index out of range", "no port", "no workers", "no index"],
)
def test_mistakes_exit_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["tf-config", *arguments])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "rror: " in result.stderr
