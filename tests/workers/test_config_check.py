"""`tfdist config check` and `tfdist train` on the same mistakes, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.cli_process import ROOT, tfdist

CONFIG = ROOT / "configs" / "digits.yaml"
MISTAKES = ["--set", "compile.metrics=[accuraci]", "--set", "model.args.hiden=[8]"]


@pytest.mark.slow
def test_a_run_refuses_what_the_check_finds_and_reads_no_data(tmp_path: Path) -> None:
    config = tmp_path / "digits.yaml"
    config.write_text(CONFIG.read_text().replace("../examples", str(ROOT / "examples")).replace("adam", "adamx"))
    checked = tfdist("config", "check", config, *MISTAKES)
    trained = tfdist("train", config, *MISTAKES, "--run-dir", tmp_path / "run")
    assert (checked.returncode, trained.returncode) == (2, 2), checked.stderr + trained.stderr
    first, *found = checked.stderr.splitlines()
    assert first == f"error: {config} has 3 mistakes:"
    keys = [mistake.split(": ")[1] for mistake in found]
    assert keys == ["model.args.hiden", "compile.optimizer.name", "compile.metrics.0"]
    assert found[1].startswith(f"  {config}:6: ")
    refused = trained.stderr.splitlines()
    assert refused[0].endswith(f"failed: {config} has 3 mistakes:")
    assert [line.strip() for line in refused[1:4]] == [line.strip() for line in found]
    assert "training on" not in trained.stdout + trained.stderr
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_config_that_is_right_is_ok_without_a_word_of_tensorflow() -> None:
    done = tfdist("config", "check", CONFIG)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{CONFIG}: ok\n", "")
