from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tfdist.cli.main import main

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
    assert content["fit"] == {"epochs": 3}
    assert content["data"]["train"]["path"] == str(config_file.parent / "digits.npz")


def test_check_accepts(config_file: Path) -> None:
    result = CliRunner().invoke(main, ["config", "check", str(config_file)])
    assert (result.exit_code, result.stdout) == (0, f"{config_file}: ok\n")


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_mistake_is_one_line_and_exits_with_2(config_file: Path, verb: str) -> None:
    result = CliRunner().invoke(main, ["config", verb, str(config_file), "--set", "data.batch_size=0"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: --set data.batch_size=0: data.batch_size: expected an integer of 1 or more. Received: 0\n"
    )
