"""Samples by which an export in integers is calibrated: those of the training, of an option, or of the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config import load_config
from tfdist.errors import UsageError
from tfdist.inference.data_choice import DataChoice, choose_data
from tfdist.inference.export.calibration_choice import choose_calibration
from tfdist.training.artifacts.artifact_formats import FORMATS

CONFIG = """
seed: 9
model: {build: tfdist.models.mlp, args: {inputs: [2], hidden: [4], classes: 3}}
compile: {optimizer: adam, loss: sparse_categorical_crossentropy}
data:
  batch_size: 61
  train: {format: npz, path: a.npz, split: train, shuffle: true, augment: some.where}
  validation: {format: npz, path: a.npz, split: test}
"""
INTEGERS = FORMATS["litert-int8"]


@pytest.fixture
def run(tmp_path: Path) -> tuple[ModelChoice, DataChoice]:
    np.savez(tmp_path / "a.npz", x_train=np.zeros([4, 2]), y_train=np.zeros(4), x_test=np.zeros([2, 2]), y_test=[0, 1])
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "config.yaml")
    return ModelChoice("/m.keras", False, "m", config), choose_data(None, config, None)


def options(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(("calibration", "calibration_data", "max_drop", "metric")), **given}


def test_those_of_the_training_in_its_order(run: tuple[ModelChoice, DataChoice]) -> None:
    chosen = choose_calibration(INTEGERS, options(), *run)
    assert chosen is not None
    assert (chosen.key, chosen.samples, chosen.seed, chosen.max_drop) == ("data.train", 512, 9, "1%")
    assert chosen.section["shuffle"] is True and chosen.section["augment"] is None


def test_those_of_an_option_or_of_the_comparison(run: tuple[ModelChoice, DataChoice], tmp_path: Path) -> None:
    model, data = run
    asked = options(calibration=7, calibration_data=str(tmp_path / "config.yaml"), max_drop="0.1", metric="loss")
    chosen = choose_calibration(INTEGERS, asked, model, data)
    assert chosen is not None
    assert (chosen.section["split"], chosen.samples) == ("test", 7)
    assert (chosen.max_drop, chosen.metric) == ("0.1", "loss")
    of_file = choose_calibration(INTEGERS, options(), ModelChoice("/m.keras", True, "m"), data)
    assert of_file is not None and of_file.key == "data.validation"


def test_what_does_not_fit(run: tuple[ModelChoice, DataChoice]) -> None:
    model, data = run
    assert choose_calibration(FORMATS["litert"], options(), model, data) is None
    with pytest.raises(UsageError, match="--calibration-data is for an export in integers"):
        choose_calibration(FORMATS["litert"], options(calibration_data="a.yaml"), model, data)
    with pytest.raises(UsageError, match="--format litert-int8 needs samples"):
        choose_calibration(INTEGERS, options(), model, None)
    with pytest.raises(UsageError, match="--max-drop takes how much worse"):
        choose_calibration(INTEGERS, options(max_drop="much"), model, data)
