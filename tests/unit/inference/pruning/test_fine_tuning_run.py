"""The directory of a fine-tuning: the same command goes on in it, another one does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.inference.pruning.test_fine_tuning_config import CONFIG
from tfdist.config import RunConfig, load_config
from tfdist.config.load import dump_yaml
from tfdist.errors import RunDirError
from tfdist.inference.pruning.fine_tuning_config import PruningChoice, fine_tuning_config
from tfdist.inference.pruning.fine_tuning_run import differing, keep_report, prepare, report_file, run_dir_of
from tfdist.launch.run_dir.run_lock import RunLock
from tfdist.rundir import RunDir
from tfdist.rundir.run_dir_creation import create_run_dir


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    (tmp_path / "config.yaml").write_text(CONFIG)
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
