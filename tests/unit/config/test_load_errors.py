"""Errors for mistakes in a config."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tfdist.config import load_config, yaml_document
from tfdist.config.load import load_parts
from tfdist.config.yaml_document import read_document
from tfdist.errors import ConfigError

TFRECORD = "data.train={format: tfrecord, files: a*"

OVERRIDES = [
    # unknown keys: the nearest valid one, in the section or elsewhere
    (
        "data.bach_size=3",
        "data.bach_size: unknown key; did you mean data.batch_size? Expected one of batch_size, train",
    ),
    ("epochs=3", "epochs: unknown key; did you mean fit.epochs? Expected one of name, seed, model"),
    (
        "fit.batch_size=3",
        "fit.batch_size: unknown key; did you mean data.batch_size? Expected one of epochs, steps_per_ep",
    ),
    ("data.train.pth=a", "data.train.pth: unknown key; did you mean data.train.path?"),
    (
        "backup={keep: 3}",
        "backup: unknown key. Expected one of name, seed, model, compile, data, fit, devices, ",
    ),
    # missing keys
    (
        "data={batch_size: 3}",
        "data.train: this key is missing. Expected a section whose key format is one of npz, tfrecord",
    ),
    (
        "model={}",
        "model.build: this key is missing. Expected a dotted path such as package.module.function. Received: no",
    ),
    (
        "data.train={path: a}",
        "data.train.format: this key is missing. Expected one of npz, tfrecord, csv, parquet, images, text",
    ),
    (
        "data.train={format: npz, path: a}",
        "data.train.split: expected train or test, or the names of the arrays, x and y, instead of it. Received: null",
    ),
    # wrong types
    ("data.batch_size='12'", 'data.batch_size: expected an integer of 1 or more. Received: "12"'),
    ("data.batch_size=1.5", "data.batch_size: expected an integer of 1 or more. Received: 1.5"),
    ("data.batch_size=true", "data.batch_size: expected an integer of 1 or more. Received: true"),
    ("devices.memory_growth=1", "devices.memory_growth: expected true or false. Received: 1"),
    ("fit=", "fit: expected a section with the keys epochs, steps_per_epoch, validation_freq, cl"),
    ("data.train=a.npz", "data.train: expected a section whose key format is one of npz"),
    ("model.args=[64]", "model.args: expected a mapping of strings to values. Received: [64]"),
    ("model.weights=a.h5", "model.weights: expected a file that ends in .keras or .weights.h5 or null. Received: "),
    # values that are not strings are not shown as strings
    ("model.args={1: a}", "model.args: expected a mapping of strings to values. Received: {1: \"a\"}"),
    ("model.args={on: [a, 2]}", "model.args: expected a mapping of strings to values. Received: {true: [\"a\", 2]}"),
    ("model.args={2026-01-01: a}", "model.args: expected a mapping of strings to values. Received: {2026-01-01: "),
    ("name=2026-01-01", "name: expected a name of letters, digits, dots, dashes and underscores. Received: 2026-01-01"),
    (
        "compile.metrics=accuracy",
        "compile.metrics: expected a list of metrics, each a name, {name: NAME} with its arguments beside the name, ",
    ),
    ("compile.metrics=[3]", "compile.metrics: expected a list of metrics"),
    ("compile.loss=", "compile.loss: expected a loss: a name, {name: NAME}"),
    ("compile.loss=[]", "compile.loss: expected a loss: a name, {name: NAME}"),
    (
        "compile.loss_weights=[a]",
        "compile.loss_weights: expected a list of numbers or a mapping of strings to numbers or",
    ),
    ("name=7", "name: expected a name of letters, digits, dots, dashes and underscores. Received: 7"),
    # impossible values
    ("data.batch_size=0", "data.batch_size: expected an integer of 1 or more. Received: 0"),
    (f"checkpoint.every_minutes={'9' * 400}", "checkpoint.every_minutes: expected "),
    ("fit.epochs=-1", "fit.epochs: expected an integer of 1 or more. Received: -1"),
    ("seed=-1", "seed: expected an integer from 0 to 4294967295 or null. Received: -1"),
    ("seed=4294967296", "seed: expected an integer from 0 to 4294967295 or null"),
    ("name=a/b", 'name: expected a name of letters, digits, dots, dashes and underscores. Received: "a/b"'),
    ("model.build=mlp", 'model.build: expected a dotted path such as package.module.function. Received: "mlp"'),
    ("shard_over=1", "shard_over: expected one of all, host or an integer of 2 or more. Received: 1"),
    ("precision=float16", "precision: expected one of float32, mixed_bfloat16, mixed_float16. Received: "),
    ("batch_norm=global", 'batch_norm: expected one of synchronized, replica. Received: "global"'),
    ("compile.optimizer={learning_rate: 1}", "compile.optimizer: expected a name, {name: NAME} with its arguments bes"),
    (
        "data.train.format=nps",
        "data.train.format: expected one of npz, tfrecord, csv, parquet, images, text, generator, webdataset, tfds",
    ),
    ("data.train.path=''", "data.train.path: expected a string that is not empty"),
    (
        "data.train={format: images, path: a, size: 8}",
        "data.train.size: expected [height, width], two integers of 1 or",
    ),
    (
        "data.train={format: generator, function: a.b, samples: [1, 2]}",
        "data.train.samples: expected an integer without lanes. Received: [1, 2]",
    ),
    (
        "data.train={format: generator, function: a.b, samples: 3, lanes: 2}",
        "data.train.samples: expected 2 integers, the samples of each lane. Received: 3",
    ),
    ("data.train={format: generator, function: a.b, samples: [-1], lanes: 1}", "data.train.samples: expected"),
    ("data.train={format: images, path: a, size: [8, 0]}", "data.train.size: expected [height, width]"),
    (
        "data.train={format: images, path: a, size: [8, 8], channels: 2}",
        "data.train.channels: expected one of 1, 3, 4.",
    ),
    ("data.train={format: csv, files: [], label: y}", "data.train.files: expected a file name, a pattern such as"),
    (
        "data.train={format: csv, files: a, label: y, columns: [x, y]}",
        "data.train.columns: expected none to be the label",
    ),
    (f"{TFRECORD}}}", "data.train.parse: expected either parse or features with label. Received: neither"),
    (
        f"{TFRECORD}, parse: a.b, features: {{}}}}",
        "data.train.parse: expected either parse or features with label. Receiv",
    ),
    (f"{TFRECORD}, parse: a.b, label: y}}", "data.train.label: expected no label beside parse"),
    (
        f"{TFRECORD}, features: {{image: {{dtype: float32}}, lable: {{dtype: int64}}}}, label: label}}",
        "data.train.label: expected one of the features image, lable; did you mean lable?",
    ),
    (
        f"{TFRECORD}, features: {{y: {{dtype: int64}}}}, label: y}}",
        "data.train.features: expected the label and at least",
    ),
    (
        f"{TFRECORD}, features: {{x: {{dtype: float}}, y: {{dtype: int64}}}}, label: y}}",
        'data.train.features.x.dtype: expected one of float32, int64, string, image. Received: "float"',
    ),
    (
        f"{TFRECORD}, features: {{x: {{dtype: float32, shape: [-1]}}, y: {{dtype: int64}}}}, label: y}}",
        "data.train.features.x.shape: expected a list of integers of 1 or more. Received: [-1]",
    ),
    (
        f"{TFRECORD}, features: {{x: {{dtype: image, shape: [8, 8]}}, y: {{dtype: int64}}}}, label: y}}",
        "data.train.features.x.shape: expected [height, width, channels] of an image",
    ),
    (
        f"{TFRECORD}, features: {{x: {{dtype: image, shape: [8, 8, 2]}}, y: {{dtype: int64}}}}, label: y}}",
        "with 1, 3 or 4 channels. Received: [8, 8, 2]",
    ),
]


@pytest.mark.parametrize(("override", "message"), OVERRIDES, ids=[override for override, _ in OVERRIDES])
def test_an_invalid_override(config_file: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        load_config(config_file, [override])
    assert str(raised.value).startswith(f"--set {override}: ")


def test_all_mistakes_are_said_at_once_each_with_its_place(config_file: Path) -> None:
    text = config_file.read_text().replace("batch_size: 128", "batch_size: 0").replace("seed: 7", "sed: 7")
    config_file.write_text(text.replace("split: train", "split: trian"))
    with pytest.raises(ConfigError) as raised:
        load_config(config_file, ["fit.epochs=0", "checkpoint.keep=0"])
    first, *mistakes = str(raised.value).split("\n  ")
    assert first == f"{config_file} has 5 mistakes:"
    assert [mistake.partition(": expected")[0].partition(": unknown")[0] for mistake in mistakes] == [
        f"{config_file}:2: sed",
        f"{config_file}:6: data.batch_size",
        f"{config_file}:7: data.train.split",
        "--set fit.epochs=0: fit.epochs",
        "--set checkpoint.keep=0: checkpoint.keep",
    ]


def test_parts_that_are_valid_outlive_the_mistakes_of_others(config_file: Path) -> None:
    parts = load_parts(config_file, ["data.batch_size=0", "compile.loss=[]", "fit.epochs=2"])
    assert [problem.key for problem in parts.problems] == ["compile.loss", "data.batch_size"]
    assert not {"", "data", "compile", "data.batch_size", "compile.loss"} & parts.values.keys()
    assert parts.values["data.train"].split == "train" and parts.values["compile.metrics"] == ["accuracy"]
    assert parts.values["fit"].epochs == 2 and parts.values["model"].build == "tfdist.models.mlp"
    assert parts.document.where("data.batch_size") == "--set data.batch_size=0"


@pytest.mark.parametrize("override", ["", "fit.epochs", "=3", "fit..epochs=3", ".epochs=3"])
def test_an_override_of_another_form(config_file: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=r"--set expected KEY=VALUE, such as --set fit.epochs=3. Received: "):
        load_config(config_file, [override])


def test_an_override_within_a_value_that_is_not_a_section(config_file: Path) -> None:
    text = "--set name.first: name is no section, so that it has no key first. Expected a mapping. Received: "
    with pytest.raises(ConfigError, match=re.escape(text)):
        load_config(config_file, ["name.first=a"])


def test_an_override_that_is_not_yaml(config_file: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape("--set fit.epochs=[: this is not valid YAML")):
        load_config(config_file, ["fit.epochs=["])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2026-02-30", '"2026-02-30" is read as timestamp and is none (day is out of range for month): correct it'),
        ("[a, 2026-13-01]", '"2026-13-01" is read as timestamp and is none'),
        ("0b_", '"0b_" is read as int and is none'),
        ("!!int foo", '"foo" is read as int and is none'),
        ("!!float foo", '"foo" is read as float and is none'),
        ("!!bool maybe", '"maybe" is read as bool and is none'),
        ("!!timestamp soon", '"soon" is read as timestamp and is none'),
        ("010", "010 is 8 in YAML 1.1 alone: write the number that is meant, or quote it"),
        ("1:30", "1:30 is 90 in YAML 1.1 alone"),
        ("{at: 10:30:00.5}", "10:30:00.5 is 37800.5 in YAML 1.1 alone"),
        ("1" * 5000, "is read as int and is none (Exceeds the limit"),
    ],
)
def test_an_impossible_scalar(config_file: Path, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        load_config(config_file, [f"model.args.value={value}"])
    assert str(raised.value).startswith("--set model.args.value=")
    config_file.write_text(config_file.read_text().replace("hidden: [128, 64]", f"hidden: {value}"))
    with pytest.raises(ConfigError, match=re.escape(f"{config_file}:3: this is not valid YAML: ")):
        load_config(config_file)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch_size: 128", "batch_size: 0", ":6: data.batch_size: expected an integer of 1 or more. Received: 0"),
        ("batch_size: 128", "bach_size: 128", ":6: data.bach_size: unknown key; did you mean data.batch_size?"),
        ("  batch_size: 128\n", "", ":5: data.batch_size: this key is missing."),  # the section's line
        ("seed: 7", "seed: 7\nseed: 8", ":3: seed is here twice. Expected it once. Received: line 2 too"),
        ("epochs: 10", "epochs: 10, epochs: 3", ":9: fit.epochs is here twice"),
        ("[accuracy]", "[{name: mse, name: mae}]", ":4: compile.metrics.0.name is here twice"),
        ("[128, 64]", "[1, [{a: 1, a: 2}]]", ":3: model.args.hidden.1.0.a is here twice"),
        ("../data/digits.npz, split: tr", "*.npz, split: tr", '; a text that begins with * needs quotes, such as "*.'),
        ("../data/digits.npz, split: tr", "*npz, split: tr", ":7: this is not valid YAML: found undefined alias 'npz'"),
        ("../data/digits.npz, split: tr", "*npz, split: tr", "'npz'; a text that begins with * needs quotes, such as"),
        ("epochs: 10}", "epochs: 10", ": this is not valid YAML: "),
        (
            "seed: 7",
            "seed: !!python/object/apply:os.getcwd []",
            ":2: this is not valid YAML: could not determine a constr",
        ),
        ("seed: 7", "7: seed", ":2: 7: unknown key."),
        ("args: {", "args: &a {itself: *a, ", ":3: an alias repeats this within itself"),
        ("args: {", "args: &a {list: [[*a]], ", ":3: an alias repeats this within itself"),
        ("seed: 7", "seed: " + "[" * 2000, ":1: brackets or sections are nested too deeply"),
    ],
)
def test_a_mistake_in_the_file(config_file: Path, old: str, new: str, message: str) -> None:
    assert old in config_file.read_text()
    config_file.write_text(config_file.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        load_config(config_file)
    assert str(raised.value).startswith(str(config_file))


def nine_times_nine(entry: str) -> str:
    """Nine levels, each of which has the one before nine times."""
    levels = [f"l0: &l0 {entry.format(', '.join('x' * 9))}"]
    levels += [f"l{n}: &l{n} {entry.format(', '.join([f'*l{n - 1}'] * 9))}" for n in range(1, 10)]
    return "{" + ", ".join(levels) + "}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nine_times_nine("[{}]"), ":3: this has more than 262,144 values"),
        (nine_times_nine("{{<<: [{}]}}"), ":3: this has more than 262,144 values"),
        ("[" + "1," * 2_000_000 + "]", "expected a config of at most 524,288 bytes"),
    ],
    ids=["aliases", "merged aliases", "a long list"],
)
def test_a_config_of_too_many_values(config_file: Path, value: str, message: str) -> None:
    config_file.write_text(config_file.read_text().replace("[128, 64]", value))
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(config_file)


@pytest.mark.parametrize("content", [b"", b"- a\n", b"just text\n", b"null\n"])
def test_a_file_that_is_not_a_mapping(config_file: Path, content: bytes) -> None:
    config_file.write_bytes(content)
    with pytest.raises(ConfigError, match="expected a config, a mapping of keys to values. Received: "):
        load_config(config_file)


def test_a_file_in_another_encoding(config_file: Path) -> None:
    config_file.write_bytes("name: größe".encode("latin-1"))
    with pytest.raises(ConfigError, match="cannot be read. Expected a config, YAML in UTF-8"):
        load_config(config_file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"There is no config file {tmp_path}/digits.yaml"):
        load_config(tmp_path / "digits.yaml")


def test_a_script_is_no_config(tmp_path: Path) -> None:
    script = tmp_path / "cnn.py"
    script.write_text('"""Trains."""\n')
    with pytest.raises(ConfigError, match=f"{script} is a Python script. Expected a config, .*`tfdist train {script}`"):
        load_config(script)


def test_a_script_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no config file"):
        load_config(tmp_path / "cnn.py")


def test_a_run_directory_is_no_config_and_has_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{tmp_path} is a directory. Expected a config, .*Received: {tmp_path}\.$"):
        load_config(tmp_path)
    (tmp_path / "config.yaml").write_text("name: a\n")
    with pytest.raises(ConfigError, match=f"The run in it has one: {tmp_path}/config.yaml."):
        load_config(tmp_path)


def test_a_config_may_come_through_a_pipe_which_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "config.yaml"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w") as file:
            for part in ("a: 1\n", "b: 2\n"):
                file.write(part)
                file.flush()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert read_document(pipe).content == {"a": 1, "b": 2}
        writing.result(30)
    monkeypatch.setattr(yaml_document, "_PIPE_SECONDS", 0.01)
    with pytest.raises(ConfigError, match="nothing has come out of it for 0.01 s"):
        read_document(pipe)
