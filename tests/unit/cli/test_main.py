from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tfdist.cli.main import VERBS, main
from tfdist.cli.verb import Verb
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian", "a.yaml"], "No such command 'trian'. Did you mean 'train'?"),
        (["Status", "runs"], "No such command 'Status'. Did you mean 'status'?"),
        (["config", "chekc"], "No such command 'chekc'. Did you mean 'check'?"),
        (["data", "shrad"], "No such command 'shrad'. Did you mean 'shard'?"),
        (["checkpoints", "prnue"], "No such command 'prnue'. Did you mean 'prune'?"),
        (["a/cnn.py"], "No such command 'a/cnn.py'. To train it: tfdist train a/cnn.py"),
        (["cnn.yaml"], "No such command 'cnn.yaml'. To train it: tfdist train cnn.yaml"),
        (["zzz"], "No such command 'zzz'."),
    ],
)
def test_an_unknown_verb_says_what_may_have_been_meant(words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert f"error: {said}{'' if said[-1] in '.?' else '.'} Expected what `main" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "option", "meant"),
    [
        (["train", "--compresion", "none"], "--compresion", "--compression"),
        (["train", "-nproc", "2", "a.yaml"], "-nproc", "--nproc"),
        (["train", "-nprco=2", "a.yaml"], "-nprco", "--nproc"),
        (["status", "--jsn", "a"], "--jsn", "--json"),
        (["status", "a", "-json"], "-json", "--json"),
        (["data", "check", "--formt", "csv", "a"], "--formt", "--format"),
    ],
)
def test_an_unknown_option_says_what_may_have_been_meant(words: list[str], option: str, meant: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    # How it is quoted is click's own.
    last = result.stderr.splitlines()[-1].replace("'", "")
    assert re.fullmatch(rf"error: No such option:? {option}\.? \(?Did you mean {meant}\?\)?\.? Expected what .*", last)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("a.yaml --epochs 5", "--set fit.epochs=5"),
        ("a.yaml --epochs=5 --quiet", "--set fit.epochs=5"),
        ("--batch-size", "--set data.batch_size=VALUE"),
        ("a.yaml --seed 3", "--set seed=3"),
    ],
)
def test_an_option_that_is_a_key_of_a_config_is_said_as_one(words: str, meant: str) -> None:
    stderr = CliRunner().invoke(main, ["train", *words.split()]).stderr
    assert f"For that key of a config: {meant}. Expected" in stderr and "Did you mean" not in stderr


@pytest.mark.parametrize("words", ["-h", "train -h", "config init -h"])
def test_help_by_a_letter(words: str) -> None:
    assert CliRunner().invoke(main, words.split()).stdout.startswith("Usage: ")


def test_ctrl_c_before_anything_runs_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("importlib.import_module", interrupted)
    result = CliRunner().invoke(main, ["train"])
    assert result.exit_code == 130
    assert result.stderr == "stopped: Ctrl-C, SIGINT\n"


def test_python_dash_m_is_the_same_command() -> None:
    command = [sys.executable, "-m", "tfdist", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
    assert result.stdout.startswith("Usage: tfdist [OPTIONS]")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("options", [[], ["--watch"]])
def test_a_terminal_whose_encoding_lacks_a_character(encoding: str, options: list[str], tmp_path: Path) -> None:
    run = create_run_dir(tmp_path / "a", name="digits-\u6570")
    run.failure_file.write_text('{"index": 0, "host": "h", "time": 1.0, "kind": "exception", "message": "\\u6570"}')
    command = [sys.executable, "-m", "tfdist", "status", str(run), *options]
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, timeout=150, env=environ)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"digits-")


@pytest.mark.parametrize(("said", "code"), [("can't start new thread", 4), ("another", 1)])
def test_without_threads_it_says_what_to_raise(said: str, code: int) -> None:
    @click.command(cls=Verb)
    def fails() -> None:
        raise RuntimeError(said)

    result = CliRunner().invoke(fails)
    assert result.exit_code == code
    assert ("Raise the limit (ulimit -u, pids.max" in result.stderr) == (code == 4)
