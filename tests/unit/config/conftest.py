from __future__ import annotations

from pathlib import Path

import pytest

CONFIG = """\
name: digits
seed: 7
model: {build: tfdist.models.mlp, args: {hidden: [128, 64]}}
compile: {optimizer: {name: adam, learning_rate: 0.002}, loss: sparse_categorical_crossentropy, metrics: [accuracy]}
data:
  batch_size: 128
  train: {format: npz, path: ../data/digits.npz, split: train, shuffle: true}
  validation: {format: npz, path: ../data/digits.npz, split: test}
fit: {epochs: 10}
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    """A valid config."""
    path = tmp_path / "configs" / "digits.yaml"
    path.parent.mkdir()
    path.write_text(CONFIG)
    return path
