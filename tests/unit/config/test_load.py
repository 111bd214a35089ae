from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tfdist.config import RunConfig, TextSource, TfrecordSource, dump_yaml, load_config, to_dict
from tfdist.config.load import shared_settings
from tfdist.errors import ConfigError

REPOSITORY = Path(__file__).parents[3]


FIT = {"steps_per_epoch": None, "validation_freq": 1, "class_weight": None, "callbacks": [], "distill": None}


def test_a_config_with_its_defaults(config_file: Path, tmp_path: Path) -> None:
    path = f"{tmp_path}/data/digits.npz"
    digits = {"format": "npz", "path": path, "augment": None, "on_nan": "keep", "classes": None, "sharding": "auto"}
    digits |= {"x": None, "y": None}
    assert to_dict(load_config(config_file)) == {
        "name": "digits",
        "seed": 7,
        "model": {"build": "tfdist.models.mlp", "args": {"hidden": [128, 64]}, "weights": None},
        "compile": {
            "optimizer": {"name": "adam", "learning_rate": 0.002},
            "loss": "sparse_categorical_crossentropy",
            "metrics": ["accuracy"],
            "weighted_metrics": [],
            "loss_weights": None,
            "jit_compile": "auto",
            "steps_per_execution": 1,
        },
        "data": {
            "batch_size": 128,
            "train": {**digits, "split": "train", "shuffle": True},
            "validation": {**digits, "split": "test", "shuffle": False},
        },
        "fit": {"epochs": 10, **FIT},
        "devices": {"logical": None, "memory_limit": None, "memory_growth": True, "share_gpu": False},
        "precision": "float32",
        "batch_norm": "synchronized",
        "kernels": "auto",
        "shard": "none",
        "shard_over": "all",
        "shard_embeddings": None,
        "tensor": 1,
        "context": 1,
        "offload": "none",
        "gather": True,
        "checkpoint": {
            "every_steps": 100,
            "every_minutes": None,
            "keep": 3,
            "best": None,
            "best_mode": "auto",
            "keep_every_steps": None,
            "keep_every_epochs": None,
            "when_busy": "wait",
            "directory": None,
        },
    }


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_configs_of_the_repository(path: Path) -> None:
    assert load_config(path).name == path.stem


@pytest.mark.parametrize(
    ("override", "section", "expected"),
    [
        ("fit.epochs=3", "fit", {"epochs": 3, **FIT}),
        ("seed=null", "seed", None),
        ("seed=", "seed", None),
        (
            "devices.logical=2",  # a new section
            "devices",
            {"logical": 2, "memory_limit": None, "memory_growth": True, "share_gpu": False},
        ),
        ("model.args.hidden=[8]", "model", {"build": "tfdist.models.mlp", "args": {"hidden": [8]}, "weights": None}),
        ("name=a=b", None, "name: expected"),  # only the first = separates
    ],
)
def test_overrides(config_file: Path, override: str, section: str | None, expected: object) -> None:
    if section is None:
        with pytest.raises(ConfigError, match=str(expected)):
            load_config(config_file, [override])
    else:
        assert to_dict(load_config(config_file, [override]))[section] == expected


def test_the_last_override_counts(config_file: Path) -> None:
    assert load_config(config_file, ["fit.epochs=3", "fit={epochs: 4}", "fit.epochs=5"]).fit.epochs == 5


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.0e-3", "0.001", "+1e-3"])
def test_every_way_to_write_a_number(config_file: Path, text: str) -> None:
    """PyYAML alone reads 1e-3 as a string, which Keras refuses late and unclearly."""
    config = load_config(config_file, [f"compile.optimizer.learning_rate={text}"])
    assert config.compile.optimizer == {"name": "adam", "learning_rate": 0.001}


def test_an_override_changes_no_alias(config_file: Path) -> None:
    text = config_file.read_text().replace("train: {", "train: &source {")
    config_file.write_text(
        text.replace("validation: {format: npz, path: ../data/digits.npz, split: test}", "validation: *source")
    )
    config = load_config(config_file, ["data.validation.split=test"])
    assert to_dict(config)["data"]["train"]["split"] == "train"
    assert to_dict(config)["data"]["validation"]["split"] == "test"


def tfrecord(files: str) -> str:
    return f"data.train={{format: tfrecord, files: {files}, parse: my.parse}}"


def test_paths_are_relative_to_the_config_and_overrides_to_the_working_directory(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/usr")
    data = load_config(config_file, ["data.validation.path=share/x.npz"]).data
    assert to_dict(load_config(config_file))["data"]["train"]["path"] == f"{tmp_path}/data/digits.npz"
    assert getattr(data.train, "path", None) == f"{tmp_path}/data/digits.npz"
    assert getattr(data.validation, "path", None) == "/usr/share/x.npz"
    assert load_config(config_file, ["model.weights=share/a.keras"]).model.weights == "/usr/share/a.keras"
    text = config_file.read_text().replace("model: {", "model: {weights: a.weights.h5, ", 1)
    config_file.write_text(text)
    assert load_config(config_file).model.weights == f"{tmp_path}/configs/a.weights.h5"
    assert load_config(config_file, ["model.weights=s3://b/a.keras"]).model.weights == "s3://b/a.keras"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ("a-*.tfrecord", "/usr/a-*.tfrecord"),
        ("/data/a", "/data/a"),
        ("[a, ../b]", ["/usr/a", "/b"]),
        ("gs://bucket/a", "gs://bucket/a"),
    ],
)
def test_lists_and_patterns_of_paths(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, files: str, expected: object
) -> None:
    monkeypatch.chdir("/usr")
    source = load_config(config_file, [tfrecord(files)]).data.train
    assert isinstance(source, TfrecordSource)
    assert source.files == expected


def test_a_folder_with_brackets_in_its_name_is_no_pattern(config_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run[1]"
    folder.mkdir()
    path = folder / "config.yaml"
    path.write_text(
        config_file.read_text().replace(
            "format: npz, path: ../data/digits.npz, split: train", "format: csv, files: a*.csv, label: y"
        )
    )
    assert to_dict(load_config(path))["data"]["train"]["files"] == f"{tmp_path}/run[[]1]/a*.csv"


def test_name_is_the_file_name_by_default(config_file: Path) -> None:
    config_file.write_text(config_file.read_text().replace("name: digits\n", ""))
    path = config_file.rename(config_file.with_name("my digits.yaml"))
    assert load_config(path).name == "my-digits"


def test_what_is_dumped_loads_again(config_file: Path, tmp_path: Path) -> None:
    config = load_config(config_file)
    text = dump_yaml(config, {"tfdist": "0.1.0", "tensorflow": "2.21.0"})
    assert yaml.safe_load(text)["versions"] == {"tfdist": "0.1.0", "tensorflow": "2.21.0"}
    (tmp_path / "config.yaml").write_text(text)
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(("text", "number"), [("1_000", 1000), ("0x1F", 31), ("0b11", 3), ("00.5", 0.5), ("-0", 0)])
def test_numbers_that_every_yaml_reads_alike(config_file: Path, text: str, number: float) -> None:
    assert load_config(config_file, [f"model.args.value={text}"]).model.args["value"] == number


def test_a_lane_may_have_no_sample(config_file: Path) -> None:
    source = load_config(config_file, ["data.train={format: generator, function: a.b, samples: [0, 3], lanes: 2}"])
    assert to_dict(source)["data"]["train"]["samples"] == [0, 3]


def test_a_single_equals_sign_is_a_string(config_file: Path, tmp_path: Path) -> None:
    config = load_config(config_file, ["data.train={format: text, files: a, label_separator: =}"])
    assert isinstance(config.data.train, TextSource)
    assert config.data.train.label_separator == "="
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("text", ["1e-3", "2E5", "1e3", "0x10", "on", "null", "1:30", "2026-01-01"])
def test_a_string_that_looks_like_another_type_is_dumped_as_a_string(
    config_file: Path, tmp_path: Path, text: str
) -> None:
    config = load_config(config_file, [f'model.args.tag="{text}"', "model.args.rate=1e-3"])
    assert (config.model.args["tag"], config.model.args["rate"]) == (text, 0.001)
    (tmp_path / "config.yaml").write_text(dump_yaml(config))
    assert load_config(tmp_path / "config.yaml") == config


def test_a_config_made_in_python_is_checked_too(config_file: Path) -> None:
    config = load_config(config_file)
    with pytest.raises(ConfigError, match="precision: expected one of float32"):
        RunConfig(
            name="a",
            model=config.model,
            compile=config.compile,
            data=config.data,
            precision="float8",  # type: ignore[arg-type]
        )


def test_settings_that_all_hosts_share(config_file: Path) -> None:
    alike = shared_settings(load_config(config_file))
    assert alike["model.args.hidden"] == [128, 64]
    assert alike["compile.optimizer.learning_rate"] == 0.002
    assert alike["data.train.split"] == "train"
    assert not [key for key in alike if key == "name" or "path" in key or key.startswith("devices")]
    of_this_host = ["data.train.path=/elsewhere.npz", "devices.memory_growth=false", "model.weights=/a.keras"]
    assert shared_settings(load_config(config_file, of_this_host)) == alike
    assert shared_settings(load_config(config_file, ["fit.epochs=3"])) != alike
    assert shared_settings(load_config(config_file, ["data.validation=null"])) != alike


def test_when_a_run_saves(config_file: Path) -> None:
    default = load_config(config_file).checkpoint
    assert (default.every_steps, default.every_minutes, default.keep) == (100, None, 3)
    changed = load_config(config_file, ["checkpoint.every_steps=null", "checkpoint.every_minutes=2.5"]).checkpoint
    assert (changed.every_steps, changed.every_minutes, changed.keep) == (None, 2.5, 3)


@pytest.mark.parametrize("value", ["2026-01-01", "{since: 2026-01-01 10:00:00}", "[!!binary aGk=]", "[{1: a}]"])
def test_shared_settings_are_json(config_file: Path, value: str) -> None:
    """YAML has types that JSON does not have."""
    alike = shared_settings(load_config(config_file, [f"model.args.value={value}"]))
    assert json.loads(json.dumps(alike)) == alike
    assert shared_settings(load_config(config_file, ["model.args.value=2026-01-02"])) != alike


@pytest.mark.parametrize("entry", ["every_steps=0", "every_minutes=0", "every_minutes=soon", "keep=0", "keep=null"])
def test_when_a_run_cannot_save(config_file: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match=f"checkpoint.{entry.partition('=')[0]}: expected"):
        load_config(config_file, [f"checkpoint.{entry}"])
