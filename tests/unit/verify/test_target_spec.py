"""The jobs that the runs of a verification are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.verify.killing.kill_spec import KillSpec
from tfdist.verify.replicas.verify_spec import VerifySpec
from tfdist.verify.target_spec import TargetSpec

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
    """Those of the user's run are neither resumed nor removed."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    config = load_config(file, own)
    job = kind("config", str(file), "digits", config=config).job(2, tmp_path / "run")
    assert job.config is not None
    assert (job.config.checkpoint.directory, job.config.checkpoint.every_steps) == (None, 7)
    assert job.config.fit == config.fit


def test_the_command_line_comes_before_the_config(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"{CONFIG}seed: 5\ndevices: {{logical: 2, memory_limit: 100}}\n")
    spec = VerifySpec("config", str(file), "digits", config=load_config(file), seed=3, memory_limit=64)
    job = spec.job(1, tmp_path / "run")
    assert (job.seed, job.logical_devices, job.memory_limit) == (3, 2, 64)


def test_a_script_has_no_config(tmp_path: Path) -> None:
    job = KillSpec("script", "train.py", "train", args=("--x",)).job(1, tmp_path)
    assert (job.args, job.config) == (("--x",), None)


def test_it_runs_on_this_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = '{"cluster": {"worker": ["far:1", "away:2"]}, "task": {"type": "worker", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", cluster)
    job = VerifySpec("script", "train.py", "train", show="all", keep="kept").job(3, tmp_path, communication="ring")
    assert (job.membership.num_workers, list(job.membership.local)) == (3, [0, 1, 2])
    assert (job.show, job.communication, job.run_dir) == ("all", "ring", str(tmp_path))
