"""The section `fit.distill`: what a teacher is, and what is impossible."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tfdist.config import load_config
from tfdist.config.load import shared_settings
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
