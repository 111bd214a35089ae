"""A checkpoint as a model: Keras opens it without tfdist, and its numbers are those that were saved."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from tests.helpers.made_checkpoints import run_with, save
from tfdist.checkpoint import checkpoint_files
from tfdist.checkpoint.inspection.checkpoint_entries import checkpoints_of
from tfdist.checkpoint.inspection.export import export
from tfdist.config import dump_yaml, load_config
from tfdist.errors import ConfigError, UsageError
from tfdist.rundir import RunDir, atomic_files
from tfdist.training.config_objects.model_builder import load_model

CONFIG = Path(__file__).parents[2] / "configs" / "digits.yaml"


def unbuilt() -> keras.Model:
    return keras.Sequential([keras.layers.Dense(10)])


def without_its_words() -> keras.Model:
    Path("absent", "words.txt").read_text()
    return unbuilt()


def run_from_config(folder: Path, *overrides: str) -> RunDir:
    run = run_with(folder)
    atomic_files.write_text(run.config_file, dump_yaml(load_config(CONFIG, overrides), {"keras": keras.__version__}))
    return run


def test_a_model_with_its_optimizer(tmp_path: Path) -> None:
    run = run_from_config(tmp_path / "a")
    x, y = np.random.default_rng(1).normal(size=(64, 64)), np.arange(64) % 10
    trained = keras.Sequential([keras.Input((64,)), *_digits_layers()])
    trained.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy")
    trained.fit(x, y, epochs=2, verbose=0)
    save(run, 10)
    trained.save_weights(tmp_path / "model.weights.h5")
    with checkpoint_files.writing(run.checkpoints_dir, 20) as draft:
        draft.add("model.weights.h5", (tmp_path / "model.weights.h5").read_bytes())
        draft.add("summary.json", b"{}")
    (tmp_path / "model.weights.h5").unlink()
    export(run, checkpoints_of(run.path)[1][0], tmp_path / "out.keras", load_model=load_model)

    opened = keras.models.load_model(tmp_path / "out.keras")
    np.testing.assert_array_equal(opened.predict(x, verbose=0), trained.predict(x, verbose=0))
    for there, here in zip(opened.optimizer.variables, trained.optimizer.variables, strict=True):
        np.testing.assert_array_equal(there, here)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "out.keras"]


def _digits_layers() -> list[keras.Layer]:
    """Those of the config's model, after its input."""
    from tfdist.models import mlp

    return mlp(inputs=[64], hidden=[128, 64], classes=10).layers[1:]


def test_a_model_without_variables_yet_is_refused(tmp_path: Path) -> None:
    run = run_from_config(tmp_path / "a", f"model.build={__name__}.unbuilt", "model.args={}")
    save(run, 10)
    with pytest.raises(UsageError, match=r"has no variables before it has seen data.*\.weights\.h5"):
        export(run, checkpoints_of(run.path)[1][0], tmp_path / "out.keras", load_model=load_model)
    assert not (tmp_path / "out.keras").exists()


def test_a_file_that_the_model_lacks_is_no_error_of_dest(tmp_path: Path) -> None:
    run = run_from_config(tmp_path / "a", f"model.build={__name__}.without_its_words", "model.args={}")
    save(run, 10)
    with pytest.raises((ConfigError, OSError), match=r"absent/words\.txt") as raised:
        export(run, checkpoints_of(run.path)[1][0], tmp_path / "out.keras", load_model=load_model)
    assert "out.keras" not in str(raised.value)


def test_a_script_has_no_model_in_its_config(tmp_path: Path) -> None:
    run = run_with(tmp_path / "a", 10)
    run.config_file.write_text("script: train.py\nargs: []\n")
    with pytest.raises(UsageError, match="is a script"):
        export(run, checkpoints_of(run.path)[1][0], tmp_path / "out.keras", load_model=load_model)
