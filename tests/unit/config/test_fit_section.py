"""What a config says of `compile` and `fit`, and what it says elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.config.compile_section import CompileConfig
from tfdist.config.fit_section import FitConfig
from tfdist.errors import ConfigError

ELSEWHERE = [(f"fit.{key}", text) for key, text in FitConfig.ELSEWHERE.items()]
ELSEWHERE += [(f"compile.{key}", text) for key, text in CompileConfig.ELSEWHERE.items()]


@pytest.mark.parametrize(("key", "instead"), ELSEWHERE)
def test_what_keras_has_and_a_config_says_elsewhere_is_refused_with_the_place(
    config_file: Path, key: str, instead: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{key}: unknown key; {instead}. Received: 1")):
        load_config(config_file, [f"{key}=1"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("fit.validation_freq=0", "fit.validation_freq: expected an integer of 1 or more or a list of different epoch"),
        ("fit.validation_freq=[]", "fit.validation_freq: expected an integer of 1 or more or a list of different"),
        ("fit.validation_freq=[2, 2]", "fit.validation_freq: expected an integer of 1 or more or a list of different"),
        ("fit.class_weight=[1, 2]", "fit.class_weight: expected a mapping of class numbers to weights of 0 or more, "),
        ("fit.class_weight={cat: 2}", "fit.class_weight: expected a mapping of class numbers to weights of 0 or more"),
        ("fit.class_weight={0: -1}", "fit.class_weight: expected a mapping of class numbers to weights of 0 or more"),
        ("fit.class_weight={}", "fit.class_weight: expected a mapping of class numbers to weights of 0 or more"),
        ("fit.callbacks=early_stopping", "fit.callbacks: expected a list of callbacks, each a name, {name: NAME} with"),
        ("fit.callbacks=[{patience: 3}]", "fit.callbacks: expected a list of callbacks, each a name, {name: NAME} wi"),
        ("fit.callbacks=[{build: my.A, patience: 3}]", "fit.callbacks: expected a list of callbacks, each a name, "),
        ("compile.jit_compile=yes please", "compile.jit_compile: expected true or false or auto. Received: "),
        ("compile.steps_per_execution=0", "compile.steps_per_execution: expected an integer of 1 or more. Received: 0"),
        ("compile.steps_per_execution=8", "checkpoint.every_steps: expected a multiple of compile.steps_per_execution"),
        ("compile.weighted_metrics=accuracy", "compile.weighted_metrics: expected a list of metrics, each a name, "),
    ],
)
def test_an_impossible_value(config_file: Path, entry: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(config_file, [entry])


def test_a_frequency_of_validations_needs_data_for_them(config_file: Path) -> None:
    with pytest.raises(ConfigError, match="fit.validation_freq: expected data.validation beside it"):
        load_config(config_file, ["fit.validation_freq=2", "data.validation=null"])


def test_weights_of_losses_have_the_form_of_the_losses(config_file: Path) -> None:
    with pytest.raises(ConfigError, match="compile.loss_weights: expected a list, as loss is one."):
        load_config(config_file, ["compile.loss=[mse, mse]", "compile.loss_weights={a: 1, b: 2}"])


@pytest.mark.parametrize(
    ("frequency", "epochs"), [(1, [0, 1, 2, 3, 4, 5]), (2, [1, 3, 5]), (4, [3]), ([1, 5], [0, 4]), ([9], [])]
)
def test_epochs_with_a_validation(frequency: int | list[int], epochs: list[int]) -> None:
    section = FitConfig(validation_freq=frequency)
    assert [epoch for epoch in range(6) if section.validates_after(epoch)] == epochs
