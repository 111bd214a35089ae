"""The config by which a model is fine-tuned: its run's, with the pruning as the last callback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config import load_config
from tfdist.errors import ConfigError, UsageError
from tfdist.inference.pruning.fine_tuning_config import PruningChoice, fine_tuning_config, with_config

CONFIG = """
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
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path / "config.yaml"


def test_what_is_trained(config: Path) -> None:
    tuned = fine_tuning_config(load_config(config), "/m.keras", PruningChoice("channels", 0.5, 2, skip=("last",)))
    assert (tuned.name, tuned.model.weights, tuned.fit.epochs) == ("small-pruned", "/m.keras", 2)
    pruning = {"name": "pruning", "structure": "channels", "sparsity": 0.5, "skip": ["last"]}
    assert tuned.fit.callbacks == ["terminate_on_nan", pruning]
    assert tuned.checkpoint.directory is None
    of_pattern = fine_tuning_config(load_config(config), "/m.keras", PruningChoice("2:4"))
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


def test_a_file_is_trained_by_a_config(config: Path) -> None:
    file = ModelChoice("/m.keras", True, "m.keras")
    chosen = with_config(file, str(config), ["fit.epochs=7"], ["my.layers"])
    assert chosen.config is not None and not chosen.is_whole
    assert chosen.config.model.build == "tfdist.models.from_file"
    assert chosen.config.model.args == {"file": "/m.keras", "modules": ["my.layers"]}
    assert chosen.config.fit.epochs == 7
    config.write_text("\n".join(line for line in CONFIG.splitlines() if not line.startswith("model:")))
    assert with_config(file, str(config)).config is not None, "the config needs no model of its own"
    with pytest.raises(UsageError, match=r"Expected --config CONFIG.yaml"):
        with_config(file, None)
    with pytest.raises(UsageError, match="--config is for a MODEL.keras"):
        with_config(chosen, str(config))
    config.write_text(CONFIG.replace("batch_size: 61", "batch_size: 0"))
    with pytest.raises(ConfigError, match="data.batch_size"):
        with_config(file, str(config))
