"""What a user names: the model, the data, the file to make; and what is refused before any worker starts."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.made_checkpoints import cut, folder_of, run_with, save
from tfdist.checkpoint.inspection.model_choice import choose_model
from tfdist.config import TfrecordSource, load_config, yaml_document
from tfdist.config.data_sections import NpzSource
from tfdist.errors import ConfigError, DataError, RunDirError, UnsupportedError, UsageError
from tfdist.inference import output_choice
from tfdist.inference.data_choice import BATCH_SIZE, choose_data, in_order
from tfdist.inference.output_choice import choose_output, choose_output_folder, choose_quantized_output
from tfdist.rundir import RunDir
from tfdist.training.inference_request import check_mode

CONFIG = """
model: {build: tfdist.models.mlp, args: {inputs: [2], hidden: [4], classes: 3}}
compile: {optimizer: adam, loss: sparse_categorical_crossentropy}
data:
  batch_size: 61
  train: {format: npz, path: a.npz, split: train, shuffle: true, augment: some.where}
  validation: {format: npz, path: a.npz, split: test}
fit: {epochs: 1}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", x_train=np.zeros([4, 2]), y_train=np.zeros(4), x_test=np.zeros([2, 2]), y_test=[0, 1])
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path / "config.yaml"


@pytest.fixture
def run(tmp_path: Path, config: Path) -> RunDir:
    run = run_with(tmp_path / "run", 15)
    save(run, 10, metrics={"loss": 1.0, "val_loss": 2.0})
    save(run, 20, metrics={"loss": 0.5, "val_loss": 1.0})
    run.config_file.write_text(CONFIG.replace("a.npz", str(tmp_path / "a.npz")))
    return run


def keras_file(path: Path) -> None:
    """A zip file, which is all that is looked at before workers start."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("model.weights.h5", "layers")


def test_the_trained_model_else_the_latest_checkpoint(run: RunDir) -> None:
    chosen = choose_model(str(run))
    assert chosen.file == str(folder_of(run, 20) / "model.weights.h5") and not chosen.is_whole
    assert chosen.shown == "run's checkpoint step-00000020"
    cut(folder_of(run, 20) / "model.weights.h5")
    assert choose_model(str(run), "latest").file == str(folder_of(run, 15) / "model.weights.h5")
    keras_file(run.model_file)
    chosen = choose_model(str(run), overrides=["data.batch_size=7"])
    assert chosen.file == str(run.model_file) and chosen.shown == "run/model.keras"
    assert chosen.config is not None and chosen.config.data.batch_size == 7


def test_the_model_that_a_script_leaves(run: RunDir) -> None:
    run.config_file.write_text("script: train.py\nargs: []\nseed: 7\n")
    with pytest.raises(UsageError, match="Received: a run without a model. Train it without --no-save"):
        choose_model(str(run))
    run.weights_file.touch()
    with pytest.raises(UsageError, match="Received: a run with model.weights.h5 alone"):
        choose_model(str(run))
    keras_file(run.model_file)
    chosen = choose_model(str(run))
    assert (chosen.file, chosen.shown, chosen.is_whole) == (str(run.model_file), "run/model.keras", True)
    assert (chosen.config, chosen.document) == (None, None)
    with pytest.raises(UsageError, match="Its checkpoints have weights alone.*--checkpoint latest"):
        choose_model(str(run), "latest")
    with pytest.raises(UsageError, match="the run of a script has none.*--set data.batch_size=7"):
        choose_model(str(run), overrides=["data.batch_size=7"])


@pytest.mark.parametrize("name", ["model.keras", "config.yaml"])
def test_a_pipe_in_a_run_is_not_waited_for(name: str, run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_document, "_PIPE_SECONDS", 0.01)
    (run.path / name).unlink(missing_ok=True)
    os.mkfifo(run.path / name)
    said = "it is not a regular file|nothing has come out of it for 0.01 s"
    with pytest.raises((DataError, RunDirError), match=said):
        choose_model(str(run))


@pytest.mark.parametrize(("name", "step"), [("10", 10), ("step-00000015", 15), ("best", 20)])
def test_a_checkpoint(name: str, step: int, run: RunDir) -> None:
    assert choose_model(str(run), name).file == str(folder_of(run, step) / "model.weights.h5")


def test_the_best_is_that_of_the_config(run: RunDir) -> None:
    best = "checkpoint: {best: loss, best_mode: max}\n"
    run.config_file.write_text(run.config_file.read_text() + best)
    assert choose_model(str(run), "best").shown == "run's checkpoint step-00000010 (loss 1)"


def test_checkpoints_that_cannot_be_used(run: RunDir) -> None:
    with pytest.raises(RunDirError, match="no checkpoint 11. Expected best, latest, or one of step-00000020"):
        choose_model(str(run), "11")
    cut(folder_of(run, 10) / "model.weights.h5")
    with pytest.raises(DataError, match="step-00000010 is damaged: .*--checkpoint"):
        choose_model(str(run), "10")


def test_what_is_no_model(run: RunDir, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no model .*absent.keras"):
        choose_model(str(tmp_path / "absent.keras"))
    assert choose_model(str(tmp_path / "absent.keras"), is_here=False).is_whole  # it is on the chief's machine
    with pytest.raises(UsageError, match="There is no model .*absent"):
        choose_model(str(tmp_path / "absent"))
    with pytest.raises(RunDirError):
        choose_model(str(tmp_path))
    (tmp_path / "a.keras").write_bytes(b"")
    with pytest.raises(DataError, match="a.keras is damaged: File is not a zip file"):
        choose_model(str(tmp_path / "a.keras"))
    keras_file(tmp_path / "a.keras")
    content = (tmp_path / "a.keras").read_bytes()
    (tmp_path / "a.keras").write_bytes(content.replace(b"layers", b"leyers", 1))
    with pytest.raises(DataError, match="a.keras is damaged: model.weights.h5"):
        choose_model(str(tmp_path / "a.keras"))
    with pytest.raises(UsageError, match="--checkpoint chooses among those of a run"):
        choose_model(str(tmp_path / "a.keras"), "best")
    with pytest.raises(UsageError, match="--set overrides an entry of a run's config"):
        choose_model(str(tmp_path / "a.keras"), overrides=["a=b"])
    run.config_file.write_text("script: train.py\n")
    with pytest.raises(UsageError, match="is a script, and not written in its config"):
        choose_model(str(run))


def test_data_of_the_run(config: Path) -> None:
    loaded = load_config(config)
    chosen = choose_data(None, loaded, None)
    assert chosen.key == "data.validation" and chosen.batch_size == 61
    chosen = choose_data("train", loaded, 5)
    assert chosen.key == "data.train" and chosen.batch_size == 5
    assert not chosen.section.shuffle and chosen.section.augment is None
    with pytest.raises(UsageError, match="nor the run of a script says anything of data.*Received: no --data"):
        choose_data(None, None, None)


def test_data_of_a_file(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose_data(str(config), None, None)
    assert isinstance(chosen.section, NpzSource) and chosen.section.split == "test" and chosen.batch_size == 61
    chosen = choose_data(f"{config}:train", None, None)
    assert isinstance(chosen.section, NpzSource) and chosen.section.split == "train"
    section = tmp_path / "digits.yaml"
    section.write_text("{format: npz, path: a.npz, split: train}")
    chosen = choose_data(str(section), None, None)
    assert isinstance(chosen.section, NpzSource) and chosen.section.path == str(tmp_path / "a.npz")
    assert (chosen.key, chosen.batch_size) == ("digits", BATCH_SIZE)
    # Data without a model is data all the same.
    section.write_text("data: {batch_size: 3, train: {format: npz, path: a.npz, split: train}}")
    with pytest.raises(UsageError, match=r"has no data.validation.*Give --data .*digits.yaml:train"):
        choose_data(str(section), None, None)
    assert choose_data(f"{section}:train", None, None).batch_size == 3


def test_samples_are_data_as_a_config_made_of_them_has_it(config: Path, tmp_path: Path) -> None:
    chosen = choose_data(str(tmp_path / "a.npz"), None, None)
    assert isinstance(chosen.section, NpzSource) and not chosen.section.shuffle
    assert (chosen.section.arrays, chosen.key, chosen.batch_size) == (("x_test", "y_test"), "a:validation", BATCH_SIZE)
    chosen = choose_data(f"{tmp_path / 'a.npz'}:train", None, 5)
    assert (chosen.section.arrays, chosen.key, chosen.batch_size) == (("x_train", "y_train"), "a:train", 5)
    np.savez(tmp_path / "odd.npz", foo=np.zeros([4, 2]), bar=np.zeros(4))
    section = choose_data(str(tmp_path / "odd.npz"), None, None, x="foo", label="bar").section
    assert isinstance(section, NpzSource)
    assert (section.path, section.arrays) == (str(tmp_path / "odd.npz"), ("foo", "bar"))


def test_data_that_cannot_be_used(config: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no data absent.yaml"):
        choose_data("absent.yaml", None, None)
    with pytest.raises(UsageError, match="There is no data .*b.npz. Expected a YAML file"):
        choose_data(str(tmp_path / "b.npz"), None, None)
    with pytest.raises(UsageError, match="--x and --label name what of a file of data is x and y"):
        choose_data(str(config), None, None, x="X")
    np.savez(tmp_path / "odd.npz", foo=np.zeros([4, 2]), bar=np.zeros(4))
    with pytest.raises(DataError, match="--data .*odd.npz: .* by their names.*Received: foo, bar"):
        choose_data(str(tmp_path / "odd.npz"), None, None)
    config.write_text(CONFIG.replace("split: test", "split: tset"))
    with pytest.raises(ConfigError, match="config.yaml:7: data.validation.split"):
        choose_data(str(config), None, None)
    (tmp_path / "s.yaml").write_text("{format: npz, path: a.npz}")
    with pytest.raises(ConfigError, match="split"):
        choose_data(str(tmp_path / "s.yaml"), None, None)
    (tmp_path / "s.yaml").write_text("{format: npz, path: absent.npz, split: test}")
    with pytest.raises(DataError, match="s.path: .*absent.npz"):
        choose_data(str(tmp_path / "s.yaml"), None, None)


def test_one_file_after_another() -> None:
    section = TfrecordSource(files="a", parse="b.c", shuffle=True, interleave=8)
    assert in_order(section) == TfrecordSource(files="a", parse="b.c", interleave=1)


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [("a.npz", None, "npz"), ("a.TFRecords", None, "tfrecord"), ("a.csv", "parquet", "parquet"), ("a", "csv", "csv")],
)
def test_the_format(name: str, form: str | None, expected: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert choose_output(str(path), form, overwrite=False) == (path, expected)


def test_files_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.npz").write_bytes(b"mine")
    with pytest.raises(UsageError, match="a.npz exists already.*--overwrite"):
        choose_output(str(tmp_path / "a.npz"), None, overwrite=False)
    assert choose_output(str(tmp_path / "a.npz"), None, overwrite=True)[1] == "npz"
    with pytest.raises(UsageError, match="does not say its format"):
        choose_output(str(tmp_path / "a.h5"), None, overwrite=False)
    with pytest.raises(UsageError, match="is a directory"):
        choose_output(str(tmp_path), "npz", overwrite=True)
    with pytest.raises(RunDirError, match="there is no directory"):
        choose_output(str(tmp_path / "absent" / "a.npz"), None, overwrite=False)
    monkeypatch.setattr(output_choice.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pyarrow, which is not installed.*pip install 'tfdist\[parquet\]'"):
        choose_output(str(tmp_path / "a.parquet"), None, overwrite=False)


def test_folders_of_outputs_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        assert choose_output_folder(str(tmp_path / name), overwrite=False) == tmp_path / name
    (tmp_path / "said").mkdir()
    (tmp_path / "said" / "outputs.json").write_text("{}")
    with pytest.raises(UsageError, match="said exists already.*replace it with --overwrite: it stays as it is until"):
        choose_output_folder(str(tmp_path / "said"), overwrite=False)
    assert choose_output_folder(str(tmp_path / "said"), overwrite=True) == tmp_path / "said"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("mine", "file"):
        with pytest.raises(UsageError, match="exists already, and has something else than kept outputs"):
            choose_output_folder(str(tmp_path / name), overwrite=True)
    with pytest.raises(RunDirError, match="there is no directory"):
        choose_output_folder(str(tmp_path / "absent" / "said"), overwrite=False)


def test_the_file_of_a_quantized_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    assert choose_quantized_output(None, "run", "int8", overwrite=False) == tmp_path / "run" / "int8.keras"
    chosen = choose_quantized_output(None, "model.keras", "int4", overwrite=False)
    assert chosen == tmp_path / "model.int4.keras"
    chosen.touch()
    with pytest.raises(UsageError, match="exists already. .*until the new file is whole"):
        choose_quantized_output(None, "model.keras", "int4", overwrite=False)
    assert choose_quantized_output(None, "model.keras", "int4", overwrite=True) == chosen
    with pytest.raises(UsageError, match=r"Expected a name that ends in .keras. Received: --output a.h5"):
        choose_quantized_output("a.h5", "run", "int8", overwrite=False)


def test_modes_that_are_refused() -> None:
    check_mode("int8")
    with pytest.raises(UnsupportedError, match="a way to train.* on several replicas its scales"):
        check_mode("float8")
    for mode in ("gptq", "awq"):
        check_mode(mode)
