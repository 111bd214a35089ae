"""The directory of a fine-tuning: the same command goes on in it, another one does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config import RunConfig, load_config
from tfdist.config.load import dump_yaml
from tfdist.errors import ConfigError, RunDirError, UsageError
from tfdist.inference.fine_tuning import (
    PruningChoice,
    differing,
    fine_tuning_config,
    keep_report,
    prepare,
    report_file,
    run_dir_of,
    with_config,
)
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir import RunDir
from tfdist.rundir.run_dir_creation import create_run_dir

TRAINED = """
name: small
model: {build: tfdist.models.mlp, args: {inputs: [2], hidden: [4], classes: 3}}
compile: {optimizer: adam, loss: sparse_categorical_crossentropy}
data: {batch_size: 61, train: {format: npz, path: /a.npz, split: train}}
fit:
  epochs: 5
  callbacks: [EarlyStopping, {name: early_stopping, patience: 2}, terminate_on_nan, {name: Pruning, sparsity: 0.1}]
checkpoint: {directory: /elsewhere}
"""


@pytest.fixture
def fine_tuned(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(TRAINED)
    return tmp_path / "config.yaml"


def test_what_is_trained(fine_tuned: Path) -> None:
    tuned = fine_tuning_config(load_config(fine_tuned), "/m.keras", PruningChoice("channels", 0.5, 2, skip=("last",)))
    assert (tuned.name, tuned.model.weights, tuned.fit.epochs) == ("small-pruned", "/m.keras", 2)
    pruning = {"name": "pruning", "structure": "channels", "sparsity": 0.5, "skip": ["last"]}
    assert tuned.fit.callbacks == ["terminate_on_nan", pruning]
    assert tuned.checkpoint.directory is None
    of_pattern = fine_tuning_config(load_config(fine_tuned), "/m.keras", PruningChoice("2:4"))
    assert of_pattern.fit.callbacks[-1] == {"name": "pruning", "structure": "2:4"}
    assert of_pattern.fit.epochs == 5


@pytest.mark.parametrize(
    ("structure", "sparsity", "message"),
    [
        ("unstructured", None, "needs a sparsity"),
        ("unstructured", 80.0, "For 80 % write 0.8"),
        ("2:4", 0.8, "prunes 0.5 of the weights, and nothing else"),
        ("rows", 0.5, "no structure 'rows'"),
    ],
)
def test_what_cannot_be_pruned(structure: str, sparsity: float | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PruningChoice(structure, sparsity)


def test_a_file_is_trained_by_a_config(fine_tuned: Path) -> None:
    file = ModelChoice("/m.keras", True, "m.keras")
    chosen = with_config(file, str(fine_tuned), ["fit.epochs=7"], ["my.layers"])
    assert chosen.config is not None and not chosen.is_whole
    assert chosen.config.model.build == "tfdist.models.from_file"
    assert chosen.config.model.args == {"file": "/m.keras", "modules": ["my.layers"]}
    assert chosen.config.fit.epochs == 7
    fine_tuned.write_text("\n".join(line for line in TRAINED.splitlines() if not line.startswith("model:")))
    assert with_config(file, str(fine_tuned)).config is not None, "the config needs no model of its own"
    with pytest.raises(UsageError, match=r"Expected --config CONFIG.yaml"):
        with_config(file, None)
    with pytest.raises(UsageError, match="--config is for a MODEL.keras"):
        with_config(chosen, str(fine_tuned))
    fine_tuned.write_text(TRAINED.replace("batch_size: 61", "batch_size: 0"))
    with pytest.raises(ConfigError, match="data.batch_size"):
        with_config(file, str(fine_tuned))


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    (tmp_path / "config.yaml").write_text(TRAINED)
    return fine_tuning_config(load_config(tmp_path / "config.yaml"), "/m.keras", PruningChoice("unstructured", 0.8))


@pytest.fixture
def run(tmp_path: Path, config: RunConfig) -> RunDir:
    """Of a training that was stopped, with the seed and the kernels that it found."""
    run = create_run_dir(run_dir_of(tmp_path / "out.keras").path, name="small-pruned")
    run.config_file.write_text(dump_yaml(replace(config, seed=11, kernels="onednn"), {"keras": "3"}))
    run.history_file.write_text("{}")
    return run


def test_it_lies_beside_the_file(tmp_path: Path) -> None:
    assert run_dir_of(tmp_path / "a.b.keras") == RunDir(tmp_path / "a.b.run")


def test_the_same_goes_on(run: RunDir, config: RunConfig) -> None:
    for overwrite in (False, True):
        prepare(run, config, overwrite=overwrite)
        assert run.history_file.exists()
    prepare(RunDir(run.path.parent / "absent"), config, overwrite=False)


def test_another_is_refused_or_replaced(run: RunDir, config: RunConfig, tmp_path: Path) -> None:
    other = replace(config, model=replace(config.model, weights="/other.keras"), fit=replace(config.fit, epochs=9))
    assert differing(run, other) == ["fit.epochs", "model.weights"]
    with pytest.raises(RunDirError, match=r"out.run has another pruning: fit.epochs, model.weights differ"):
        prepare(run, other, overwrite=False)
    with RunLock() as lock:
        lock.take(run)
        with pytest.raises(RunDirError, match="belongs to a job that is still running"):
            prepare(run, other, overwrite=True)
    assert run.history_file.exists()
    prepare(run, other, overwrite=True)
    assert not run.history_file.exists() and run.run_file.exists()
    assert differing(run, other) == []


def test_what_has_led_to_a_file_begins_anew(run: RunDir, config: RunConfig) -> None:
    keep_report(run, {"drop": 0.0})
    prepare(run, config, overwrite=False)
    assert run.history_file.exists()
    prepare(run, config, overwrite=True)
    assert not run.history_file.exists() and not report_file(run).exists()
