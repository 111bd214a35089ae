"""The section `fit.distill`: what a teacher is, and what is impossible.

What a config says of `compile` and `fit`, and what it says elsewhere.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tfdist.config import load_config
from tfdist.config.load import shared_settings
from tfdist.config.training_sections import CompileConfig, FitConfig, direction
from tfdist.errors import ConfigError

CONFIG = """
model: {{build: tfdist.models.mlp, args: {{inputs: [2], hidden: [4], classes: 3}}}}
compile: {{optimizer: adam, loss: sparse_categorical_crossentropy}}
data: {{batch_size: 61, train: {{format: npz, path: a.npz, split: train}}}}
fit: {{epochs: 1, distill: {distill}}}
"""


def config(folder: Path, distill: str) -> Path:
    path = folder / "student.yaml"
    path.write_text(CONFIG.format(distill=distill))
    return path


def test_defaults(tmp_path: Path) -> None:
    section = load_config(config(tmp_path, "{teacher: runs/a}")).fit.distill
    assert section is not None and section.outputs is None
    assert (section.temperature, section.alpha, section.teacher_gives) == (2.0, 0.5, "auto")


@pytest.mark.parametrize(
    ("distill", "expected"),
    [
        ("{teacher: runs/a}", "runs/a"),
        ("{teacher: a.keras}", "a.keras"),
        ("{teacher: {outputs: said}}", {"outputs": "said"}),
    ],
)
def test_paths_are_relative_to_the_config(distill: str, expected: Any, tmp_path: Path) -> None:
    section = load_config(config(tmp_path, distill)).fit.distill
    assert section is not None
    if isinstance(expected, str):
        assert section.teacher == str(tmp_path / expected)
    else:
        assert section.teacher == {"outputs": str(tmp_path / "said")} and section.outputs == str(tmp_path / "said")


def test_paths_of_the_command_line_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    section = load_config(config(tmp_path, "{teacher: runs/a}"), ["fit.distill.teacher=b.keras"]).fit.distill
    assert section is not None and section.teacher == os.path.abspath("b.keras")


@pytest.mark.parametrize("value", ["{build: my.teacher, args: {size: 3}}", "{name: mine>Teacher, size: 3}"])
def test_teachers_that_code_makes(value: str, tmp_path: Path) -> None:
    section = load_config(config(tmp_path, f"{{teacher: {value}}}")).fit.distill
    assert section is not None and section.outputs is None


@pytest.mark.parametrize(
    ("distill", "message"),
    [
        ("{teacher: a.keras, temperature: 0}", "fit.distill.temperature: expected a number above 0. Received: 0"),
        ("{teacher: a.keras, temperature: -1.5}", "fit.distill.temperature: expected a number above 0"),
        ("{teacher: a.keras, alpha: 1.5}", "fit.distill.alpha: expected a number from 0 to 1. Received: 1.5"),
        ("{teacher: a.keras, alpha: -0.1}", "fit.distill.alpha: expected a number from 0 to 1"),
        ("{teacher: a.keras, temprature: 2}", "fit.distill.temprature: unknown key; did you mean fit.distill.temperat"),
        ("{teacher: a.keras, teacher_gives: odds}", "expected one of auto, logits, probabilities"),
        ("{alpha: 0.5}", "fit.distill.teacher: this key is missing. Expected a run directory, a file MODEL.keras"),
        ("{teacher: {outputs: a, build: b.c}}", "fit.distill.teacher: expected a run directory, a file MODEL.keras"),
        ("{teacher: {build: teacher}}", "fit.distill.teacher: expected a run directory, a file MODEL.keras"),
        ("{teacher: 3}", "fit.distill.teacher: expected a run directory, a file MODEL.keras"),
        ("{teacher: {outputs: a}, checkpoint: best}", "fit.distill.checkpoint: expected it beside a run directory as"),
    ],
)
def test_what_is_refused(distill: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config(tmp_path, distill))
    assert message in str(caught.value) and "student.yaml:5" in str(caught.value)


def test_hosts_may_have_a_teacher_at_other_places(tmp_path: Path) -> None:
    def shared(distill: str) -> dict[str, Any]:
        return shared_settings(load_config(config(tmp_path, distill)))

    assert shared("{teacher: a.keras}") == shared("{teacher: b.keras}")
    assert shared("{teacher: {outputs: a}}") == shared("{teacher: {outputs: b}}")
    assert shared("{teacher: a.keras}") != shared("{teacher: {outputs: a}}")
    assert shared("{teacher: a.keras}") != shared("{teacher: a.keras, alpha: 0.1}")


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


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("loss", "min"),
        ("val_loss", "min"),
        ("val_accuracy", "max"),
        ("val_acc", "max"),
        ("val_sparse_categorical_accuracy", "max"),
        ("val_accuracy_head_loss", "min"),  # the loss of an output called accuracy_head
        ("mean_absolute_error", "min"),
        ("val_mse", "min"),
        ("kl_divergence", "min"),
        ("auc_1", "max"),
        ("val_precision", "max"),
        ("f1_score", "max"),
        ("mean_io_u", "max"),
        ("cosine_similarity", "max"),
        ("val_speed", None),
        ("accelerated", None),  # acc must be a whole word
        ("error_score", None),  # contradictory
    ],
)
def test_direction_of_a_metric(metric: str, expected: str | None) -> None:
    assert direction(metric) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], "min"),
        (["best=val_accuracy"], "max"),
        (["best=val_accuracy", "best_mode=min"], "min"),
        (["best=gain", "best_mode=max"], "max"),
    ],
)
def test_best_direction(entries: list[str], expected: str, config_file: Path) -> None:
    section = load_config(config_file, [f"checkpoint.{entry}" for entry in entries]).checkpoint
    assert section.best_direction == expected


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        (["best=''"], 'checkpoint.best: expected a string that is not empty or null. Received: ""'),
        (["best=gain"], 'best_mode: expected min or max, as the name does not tell whether more of "gain" is better'),
        (["best_mode=max"], 'best_mode: expected the key best beside it. Received: "max" alone'),
        (["best=val_loss", "best_mode=less"], "best_mode: expected one of auto, min, max. Received: "),
        (["keep_every_steps=250"], "keep_every_steps: expected a multiple of every_steps, which is 100, so that"),
        (["keep_every_steps=0"], "keep_every_steps: expected an integer of 1 or more or null. Received: 0"),
        (["every_steps=null", "keep_every_steps=10"], "keep_every_steps: expected a multiple of every_steps, which is"),
        (["keep_every_epochs=1.5"], "keep_every_epochs: expected an integer of 1 or more or null. Received: 1.5"),
        (["when_busy=stop"], "checkpoint.when_busy: expected one of wait, skip"),
    ],
)
def test_invalid_policies(entries: list[str], problem: str, config_file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, [f"checkpoint.{entry}" for entry in entries])
    assert problem in str(caught.value)


def test_best_of_a_validation_metric_needs_a_validation(config_file: Path) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint.best: expected a metric of the training, as there is no data.v"):
        load_config(config_file, ["data.validation=null", "checkpoint.best=val_loss"])


@pytest.mark.parametrize(
    ("directory", "expected"), [("gs://bucket/run", "gs://bucket/run"), ("/a/b", "/a/b"), ("kept", "{cwd}/kept")]
)
def test_directory(directory: str, expected: str, config_file: Path) -> None:
    config = load_config(config_file, [f"checkpoint.directory={directory}"])
    assert config.checkpoint.directory == expected.format(cwd=Path.cwd())
    assert shared_settings(config) == shared_settings(load_config(config_file))  # hosts may have different paths
