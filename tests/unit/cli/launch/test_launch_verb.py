from __future__ import annotations

import click
import pytest
from click.testing import CliRunner, Result

from tfdist.cli.launch import launch_verb
from tfdist.cli.launch.engines import ENGINES, EngineCall
from tfdist.cli.launch.launch_verb import ENGINE_OPTIONS, LAUNCHERS_OWN, REFUSED_OF_TRAIN, check_options, train_options
from tfdist.cli.train import train
from tfdist.errors import UsageError


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, EngineCall]]:
    """What engines were called with; each returns 7."""
    called: list[tuple[str, EngineCall]] = []

    def call(name: str, call: EngineCall) -> int:
        called.append((name, call))
        return 7

    monkeypatch.setattr(launch_verb, "call_engine", call)
    return called


def run(*arguments: str) -> Result:
    return CliRunner().invoke(launch_verb.launch, list(arguments))


def test_options_of_train_are_written_out_again(calls: list[tuple[str, EngineCall]]) -> None:
    """As train reads them to the same values; what was not given is not written."""
    given = ["--devices", "0,2", "--grace", "5", "--set", "fit.epochs=3", "--set", "name=-x", "--overwrite"]
    assert run("--hosts", "h1,h2", *given, "--run-dir=-odd", "digits.yaml").exit_code == 7
    [(engine, call)] = calls
    assert engine == "ssh"
    assert call.train_arguments == (
        "--devices=0,2",
        "--run-dir=-odd",
        "--overwrite",
        "--set=fit.epochs=3",
        "--set=name=-x",
        "--grace=5.0",
    )
    with train.make_context("train", [*call.arguments]) as read:
        assert {name: read.params[name] for name in call.train} == dict(call.train)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["train.py", "--epochs", "3", "--hosts"], ("train.py", "--epochs", "3", "--hosts")),
        (["-m", "package.module", "--epochs", "3"], ("-m", "package.module", "--epochs", "3")),
        (["other.yaml", "--grace", "9"], ("--grace=9.0", "other.yaml")),
        ([], ("tfdist.yaml",)),
    ],
)
def test_targets(calls: list[tuple[str, EngineCall]], target: list[str], expected: tuple[str, ...]) -> None:
    """They need not exist here: they are the hosts'."""
    assert run("--hosts", "h1", *target).exit_code == 7
    assert calls[0][1].arguments == expected


@pytest.mark.parametrize("name", sorted(LAUNCHERS_OWN))
def test_what_the_launcher_decides_cannot_be_given(name: str) -> None:
    result = run("--hosts", "h1", f"--{name}", "1", "train.py")
    assert result.exit_code == 2
    assert f"No such option '--{name}'" in result.output


def test_an_option_of_another_engine_is_refused() -> None:
    option = next(each for each in ENGINE_OPTIONS if each.option.name == "hostfile")
    with pytest.raises(UsageError, match="--hostfile belongs to .*--on ssh.*with --on slurm") as refused:
        check_options("slurm", {"hostfile"})
    remedy = option.instead.get("slurm", "Leave --hostfile out")
    assert remedy in str(refused.value)


def test_what_to_do_instead_of_a_working_directory_under_slurm() -> None:
    with pytest.raises(UsageError, match="Expected no option: call tfdist in that folder"):
        check_options("slurm", {"cwd"})


def test_an_option_of_train_that_an_engine_has_another_for_is_refused(calls: list[tuple[str, EngineCall]]) -> None:
    result = run("--hosts", "h1", "--nproc", "2", "train.py")
    assert (result.exit_code, calls) == (2, [])
    assert "--on ssh has no --nproc. Expected --workers-per-host N. Received: --nproc" in result.output


def test_a_job_that_may_lose_hosts_is_not_for_mpirun(calls: list[tuple[str, EngineCall]]) -> None:
    result = run("--on", "mpi", "--hosts", "h1,h2", "--min-workers", "1", "train.py")
    assert (result.exit_code, calls) == (2, [])
    assert "--on mpi has no --min-workers. Expected --on ssh, as mpirun ends all hosts" in result.output


def test_no_two_options_share_a_name() -> None:
    options = [*(each.option for each in ENGINE_OPTIONS), *train_options()]
    flags = [flag for option in options for flag in option.opts]
    names = [option.name for option in options]
    assert len(set(flags)) == len(flags)
    assert len(set(names)) == len(names)


def test_what_is_refused_is_an_option_of_train() -> None:
    known = {option.name for option in train.params if isinstance(option, click.Option)}
    assert {name for refused in REFUSED_OF_TRAIN.values() for name in refused} <= known


def test_the_help_shows_options_apart() -> None:
    text = run("--help-all").output
    own, _, of_train = text.partition("What runs, and where:")
    assert "--on" in own and "--max-restarts" in of_train and "--max-restarts" not in own
    assert all(f"With --on {name}:" in own for name in ENGINES)
    shown = " ".join(of_train.split())
    assert "Not with --on ssh, slurm, mpi." in shown and "Not with --on ray, mpi." in shown
