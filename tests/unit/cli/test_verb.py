from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tfdist.cli.verb import Verb
from tfdist.errors import ClusterError, ConfigError, DataError, FormingError, TfdistError, WorkerFailedError


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
