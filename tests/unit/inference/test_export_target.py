"""What an export makes, and what it never replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfdist.errors import RunDirError, UsageError
from tfdist.inference.export_job import choose_target
from tfdist.training.artifacts import artifact_formats
from tfdist.training.artifacts.artifact_formats import FORMATS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("form", "model", "name", "version"),
    [
        ("onnx", "runs/a", "a.onnx", ""),
        ("litert", "digits.keras", "digits.tflite", ""),
        ("savedmodel", "runs/a/", "a-savedmodel", "1"),
        ("openvino", "digits.keras", "digits-openvino", "1"),
        ("tensorrt", "runs/a", "a-tensorrt", ""),
    ],
)
def test_names(form: str, model: str, name: str, version: str, folder: Path) -> None:
    target = choose_target(None, model, FORMATS[form], None)
    assert target.path == folder / name and target.version == version
    assert target.temporary.parent == folder and target.temporary.name.startswith(".")
    assert target.temporary.suffix == FORMATS[form].ending or not FORMATS[form].ending


def test_what_exists_is_refused(folder: Path) -> None:
    (folder / "a.onnx").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"a\.onnx exists already"):
        choose_target(None, "a.keras", FORMATS["onnx"], None)
    (folder / "a-savedmodel").mkdir()
    (folder / "a-savedmodel" / "notes.txt").touch()
    with pytest.raises(UsageError, match="a-savedmodel exists already"):
        choose_target(None, "a.keras", FORMATS["savedmodel"], 2)


def test_a_version_beside_others(folder: Path) -> None:
    (folder / "a" / "1").mkdir(parents=True)
    for version in (None, 1):
        with pytest.raises(UsageError, match="Give --model-version 2"):
            choose_target("a", "a.keras", FORMATS["savedmodel"], version)
    target = choose_target("a", "a.keras", FORMATS["savedmodel"], 2)
    assert target.path == folder / "a" / "2" and target.version == "" and target.name == "a"
    assert not target.temporary.name.isdecimal()  # which a server would take for a version


def test_names_that_cannot_be_used() -> None:
    with pytest.raises(UsageError, match=r"ends in \.onnx"):
        choose_target("a.tflite", "a.keras", FORMATS["onnx"], None)
    with pytest.raises(UsageError, match="--model-version numbers the folders"):
        choose_target(None, "a.keras", FORMATS["onnx"], 3)
    with pytest.raises(RunDirError, match="there is no directory"):
        choose_target("absent/a.onnx", "a.keras", FORMATS["onnx"], None)


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_formats.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"onnx and onnxruntime and tf2onnx.*pip install 'tfdist\[onnx\]'"):
        FORMATS["onnx"].check_installed()
    FORMATS["savedmodel"].check_installed()
