"""The jobs that the runs of a verification are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.verify.killing.kill_spec import KillSpec
from tfdist.verify.target_spec import TargetSpec
from tfdist.verify.verify_spec import VerifySpec

CONFIG = """
model: {build: tfdist.models.mlp, args: {inputs: [4], hidden: [2], classes: 3}}
compile: {optimizer: sgd, loss: sparse_categorical_crossentropy}
data: {batch_size: 8, train: {format: npz, path: x.npz, split: train}}
checkpoint: {every_steps: 7, directory: kept/elsewhere}
"""


@pytest.mark.parametrize("kind", [VerifySpec, KillSpec])
@pytest.mark.parametrize("own", [(), ("checkpoint.directory=/another/place", "fit.epochs=2")])
def test_checkpoints_of_a_verified_config_stay_in_its_run_directory(
    kind: type[TargetSpec], own: tuple[str, ...], tmp_path: Path
) -> None:
    """Those of the user's run are neither gone on with nor removed."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    job = kind("config", str(config), "digits", overrides=own).job(2, tmp_path / "run")
    read = load_config(job.target, job.overrides)
    assert (read.checkpoint.directory, read.checkpoint.every_steps) == (None, 7)
    assert job.overrides[: len(own)] == own


def test_a_script_has_no_config_to_override(tmp_path: Path) -> None:
    job = KillSpec("script", "train.py", "train", args=("--x",)).job(1, tmp_path)
    assert (job.args, job.overrides) == (("--x",), ())


def test_it_runs_on_this_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = '{"cluster": {"worker": ["far:1", "away:2"]}, "task": {"type": "worker", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", cluster)
    job = VerifySpec("script", "train.py", "train", show="all", keep="kept").job(3, tmp_path, communication="ring")
    assert (job.membership.num_workers, list(job.membership.local)) == (3, [0, 1, 2])
    assert (job.show, job.communication, job.run_dir) == ("all", "ring", str(tmp_path))
