from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.errors import WorkerFailedError

CONFIG = """\
model: {build: tfdist.models.mlp}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 128, train: {format: npz, path: digits.npz, split: train}}
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "digits.yaml"
    path.write_text(CONFIG)
    return path


def test_show_prints_the_resolved_config(config_file: Path) -> None:
    result = CliRunner().invoke(main, ["config", "show", str(config_file), "--set", "fit.epochs=3"])
    assert result.exit_code == 0
    content = yaml.safe_load(result.stdout)
    assert content["name"] == "digits"
    assert content["fit"]["epochs"] == 3
    assert content["data"]["train"]["path"] == str(config_file.parent / "digits.npz")


def check(config_file: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["config", "check", str(config_file), "--static", *options])


def test_check_accepts(config_file: Path) -> None:
    (config_file.parent / "digits.npz").touch()
    result = check(config_file)
    assert (result.exit_code, result.stdout) == (0, f"{config_file}: ok\n")


def test_check_says_which_file_is_missing_and_exits_with_5(config_file: Path) -> None:
    result = check(config_file)
    assert (result.exit_code, result.stdout) == (5, "")
    missing = config_file.parent / "digits.npz"
    assert result.stderr.startswith(f"error: {config_file}:3: data.train.path: Cannot read {missing}: No such file")


def test_check_says_all_mistakes_at_once_and_exits_with_2_where_one_is_of_the_config(config_file: Path) -> None:
    result = check(config_file, "--set", "fit.epochs=0", "--set", "compile.loss=")
    assert (result.exit_code, result.stdout) == (2, "")
    first, *mistakes = result.stderr.splitlines()
    assert first == f"error: {config_file} has 3 mistakes:"
    assert [mistake.split(": ")[1] for mistake in mistakes] == ["compile.loss", "fit.epochs", "data.train.path"]


def test_what_takes_tensorflow_is_checked_without_the_parts_that_are_known_to_be_wrong(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[set[str], set[str], float]] = []

    def check_objects(values: dict[str, object], skipped: set[str], seconds: float) -> list[tuple[str, str, int]]:
        asked.append((set(values), skipped, seconds))
        return [("compile.optimizer", "there is none.", 2)]

    monkeypatch.setattr("tfdist.launch.config_process.check_objects", check_objects)
    result = CliRunner().invoke(
        main, ["config", "check", str(config_file), "--timeout", "7", "--set", "data.batch_size=0"]
    )
    ((values, skipped, seconds),) = asked
    assert {"model", "compile", "data.train"} <= values and not {"", "data", "data.batch_size"} & values
    assert (skipped, seconds, result.exit_code) == ({"data.train"}, 7.0, 2)
    assert f"{config_file}:2: compile.optimizer: there is none.\n" in result.stderr


def test_mistakes_are_said_also_where_the_process_of_the_other_checks_dies(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_objects(*arguments: object) -> list[tuple[str, str, int]]:
        raise WorkerFailedError("It died.")

    monkeypatch.setattr("tfdist.launch.config_process.check_objects", check_objects)
    (config_file.parent / "digits.npz").touch()
    alone = CliRunner().invoke(main, ["config", "check", str(config_file)])
    assert (alone.exit_code, alone.stderr) == (4, "error: It died.\n")
    both = CliRunner().invoke(main, ["config", "check", str(config_file), "--set", "data.batch_size=0"])
    assert both.exit_code == 2
    assert "of 1 or more. Received: 0\nThe rest was not checked. It died." in both.stderr


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_mistake_is_one_line_and_exits_with_2(config_file: Path, verb: str) -> None:
    (config_file.parent / "digits.npz").touch()
    static = ["--static"] if verb == "check" else []
    result = CliRunner().invoke(main, ["config", verb, str(config_file), *static, "--set", "data.batch_size=0"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --set data.batch_size=0: data.batch_size: expected an integer of 1 or more. Received: 0\n"
    )
