"""By what samples `tfdist quantize` rounds weights, and to how many bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.checkpoint.inspection.model_choice import ModelChoice
from tfdist.config import load_config
from tfdist.errors import UsageError
from tfdist.inference.calibration import OPTIONS, check_options, choose_calibration, choose_kernel_calibration
from tfdist.inference.data_choice import DataChoice, choose_data
from tfdist.training.artifacts.artifact_formats import FORMATS
from tfdist.training.inference_request import QuantizationRequest

EXPORTED = """
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
    (tmp_path / "config.yaml").write_text(EXPORTED)
    config = load_config(tmp_path / "config.yaml")
    return ModelChoice("/m.keras", False, "m", config), choose_data(None, config, None)


def export_options(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(("calibration", "calibration_data", "max_drop", "metric")), **given}


def test_those_of_the_training_in_its_order(run: tuple[ModelChoice, DataChoice]) -> None:
    chosen = choose_calibration(INTEGERS, export_options(), *run)
    assert chosen is not None
    assert (chosen.key, chosen.samples, chosen.seed, chosen.max_drop) == ("data.train", 512, 9, "1%")
    assert chosen.section["shuffle"] is True and chosen.section["augment"] is None


def test_those_of_an_option_or_of_the_comparison(run: tuple[ModelChoice, DataChoice], tmp_path: Path) -> None:
    model, data = run
    asked = export_options(calibration=7, calibration_data=str(tmp_path / "config.yaml"), max_drop="0.1", metric="loss")
    chosen = choose_calibration(INTEGERS, asked, model, data)
    assert chosen is not None
    assert (chosen.section["split"], chosen.samples) == ("test", 7)
    assert (chosen.max_drop, chosen.metric) == ("0.1", "loss")
    of_file = choose_calibration(INTEGERS, export_options(), ModelChoice("/m.keras", True, "m"), data)
    assert of_file is not None and of_file.key == "data.validation"


def test_what_does_not_fit(run: tuple[ModelChoice, DataChoice]) -> None:
    model, data = run
    assert choose_calibration(FORMATS["litert"], export_options(), model, data) is None
    with pytest.raises(UsageError, match="--calibration-data is for an export in integers"):
        choose_calibration(FORMATS["litert"], export_options(calibration_data="a.yaml"), model, data)
    with pytest.raises(UsageError, match="--format litert-int8 needs samples"):
        choose_calibration(INTEGERS, export_options(), model, None)
    with pytest.raises(UsageError, match="--max-drop takes how much worse"):
        choose_calibration(INTEGERS, export_options(max_drop="much"), model, data)


CONFIG = """
seed: 9
model: {build: tfdist.models.mlp, args: {inputs: [2], hidden: [4], classes: 3}}
compile: {optimizer: adam, loss: sparse_categorical_crossentropy}
data:
  batch_size: 61
  train: {format: npz, path: a.npz, split: train, shuffle: true}
  validation: {format: npz, path: a.npz, split: test}
"""


def options(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys(OPTIONS), **given}


def test_those_of_the_training(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.zeros([4, 2]), y_train=np.zeros(4), x_test=np.zeros([2, 2]), y_test=[0, 1])
    (tmp_path / "config.yaml").write_text(CONFIG)
    config = load_config(tmp_path / "config.yaml")
    data = choose_data(None, config, None)
    model = ModelChoice("/m.keras", False, "m", config)
    chosen = choose_kernel_calibration("gptq", options(), model, data)
    assert chosen is not None
    assert (chosen.key, chosen.samples, chosen.seed, chosen.bits, chosen.group_size) == ("data.train", 512, 9, 4, 128)
    asked = choose_kernel_calibration("gptq", options(bits=8, group_size=-1, calibration=7), model, data)
    assert asked is not None and (asked.samples, asked.bits, asked.group_size) == (7, 8, -1)
    assert choose_kernel_calibration("int4", options(), model, data) is None
    request = QuantizationRequest("/a", "gptq", calibration=asked)
    content = {**vars(request), "calibration": vars(asked), "keep_float": []}
    assert QuantizationRequest.of(content) == request


def test_options_that_do_not_fit() -> None:
    check_options("gptq", options(bits=8, group_size=-1, calibration=3))
    check_options("int8", options())
    with pytest.raises(UsageError, match="with --mode gptq or awq. Received: --group-size with --mode int4"):
        check_options("int4", options(group_size=3))
    with pytest.raises(UsageError, match="awq has 4 bits a weight.* Received: --bits 8"):
        check_options("awq", options(bits=8))
    with pytest.raises(UsageError, match="gptq has 4 or 8 bits a weight.* Received: --bits 3"):
        check_options("gptq", options(bits=3))
    with pytest.raises(UsageError, match="Expected 1 or more, or -1 for all. Received: --group-size 0"):
        check_options("awq", options(group_size=0))
