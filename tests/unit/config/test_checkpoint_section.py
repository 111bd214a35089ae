from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.config import load_config
from tfdist.config.load import shared_settings
from tfdist.config.metric_direction import direction
from tfdist.errors import ConfigError


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
