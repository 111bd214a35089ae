from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tfdist.cli.main import main
from tfdist.launch import job as job_module
from tfdist.rundir import create_run_dir

CONFIG = """\
name: digits
model: {build: tfdist.models.mlp}
compile: {optimizer: adam, loss: mse}
data: {batch_size: 32, train: {format: npz, path: digits.npz, split: train}}
"""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CONFIG", "SLURM_JOB_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(arguments: str) -> Result:
    return CliRunner().invoke(main, arguments.split())


@pytest.mark.parametrize("verb", ["config show", "config check --static", "train", "plan", "verify"])
def test_a_missing_config_is_that_of_the_directory(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run(verb)
    assert refused.exit_code == 2 and "the default ./tfdist.yaml does not exist" in refused.stderr
    Path("tfdist.yaml").write_text(CONFIG)
    monkeypatch.setattr(job_module, "run_job", lambda spec: 0)
    assert "tfdist: ./tfdist.yaml is taken, as no config was given\n" in run(verb).stderr


def test_what_is_asked_to_be_quiet_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tfdist.yaml").write_text(CONFIG)
    monkeypatch.setattr(job_module, "run_job", lambda spec: 0)
    assert run("train --quiet --nproc 1").stderr == ""


@pytest.mark.parametrize(
    "verb", ["ledger", "checkpoints ls", "stop", "evaluate --data a.npz", "export --format savedmodel"]
)
def test_a_missing_run_is_the_newest(verb: str) -> None:
    refused = run(verb)
    assert refused.exit_code == 2 and "No run was given, and there is none in ./runs." in refused.stderr
    for age, name in enumerate(("newest", "older")):
        made = create_run_dir(f"runs/{name}", name=name)
        os.utime(made.run_file, (1e9 - age, 1e9 - age))
    told = run(verb)
    assert told.stderr.startswith("tfdist: runs/newest is taken, the newest run in ./runs\n"), told.output
