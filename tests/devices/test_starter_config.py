"""A config made from data: it is valid, its model fits the data, and it trains as it is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner, Result

from tests.helpers.marks import slow
from tfdist import keras_repairs
from tfdist.cli.main import main
from tfdist.config import RunConfig, load_config
from tfdist.data import from_config
from tfdist.training.config_objects.objects import checked_objects

GENERATOR = np.random.default_rng(1)
CLASSES = np.arange(40) % 3


def floats(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape).astype(np.float32)


def npz(folder: Path, y: np.ndarray, *shape: int, test: bool = True) -> str:
    arrays = {"x_train": floats(len(y), *shape), "y_train": y}
    np.savez(folder / "a.npz", **arrays, **({"x_test": arrays["x_train"][:8], "y_test": y[:8]} if test else {}))
    return "a.npz"


def table(folder: Path, names: str, rows: list[str]) -> str:
    (folder / "a.csv").write_text("\n".join([names, *rows]) + "\n")
    return "a.csv"


def images(root: Path) -> None:
    for number, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for place in range(8):
            image = tf.io.encode_png(np.full((160, 80, 3), 100 * number + place, np.uint8)).numpy()
            (root / name / f"{place}.png").write_bytes(image)


def folders(folder: Path) -> str:
    images(folder / "photos" / "train")
    images(folder / "photos" / "val")
    return "photos"


def feature(value: Any) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    values = np.atleast_1d(value)
    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def records(folder: Path, make: Callable[[int], dict[str, Any]]) -> str:
    (folder / "shards").mkdir()
    with tf.io.TFRecordWriter(str(folder / "shards" / "a.tfrecord")) as writer:
        for number in range(40):
            content = {name: feature(value) for name, value in make(number).items()}
            example = tf.train.Example(features=tf.train.Features(feature=content))
            writer.write(example.SerializeToString())
    return "shards"


PNG = tf.io.encode_png(np.zeros((16, 16, 1), np.uint8)).numpy()


def parquet(folder: Path, **columns: Any) -> str:
    """40 rows, in two files."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(columns)
    for number in range(2):
        pq.write_table(table.slice(20 * number, 20), folder / f"{number}.parquet", row_group_size=8)
    return str(folder / "*.parquet")


CASES: dict[str, tuple[Callable[[Path], str], str, str, bool]] = {
    "vectors": (lambda folder: npz(folder, CLASSES, 12), "mlp", "3 classes", True),
    "images in arrays": (lambda folder: npz(folder, CLASSES, 16, 16, 1), "cnn", "3 classes", True),
    "one-hot": (lambda folder: npz(folder, np.eye(3)[CLASSES], 12, test=False), "mlp", "3 classes", False),
    "numbers": (lambda folder: npz(folder, floats(40), 12), "tabular", "1 number", True),
    "rows of numbers": (lambda folder: npz(folder, floats(40, 2), 4, 3), "tabular", "2 numbers", True),
    "CSV": (
        lambda folder: table(folder, "a,name,b,label", [f"{n},n{n},{n * 1000},{n % 2}" for n in range(40)]),
        "tabular",
        "2 classes",
        False,
    ),
    "CSV of numbers": (
        lambda folder: table(folder, "a,b,price", [f"{n},{n * 2},{n / 7}" for n in range(40)]),
        "tabular",
        "1 number",
        False,
    ),
    "Parquet": (
        lambda folder: parquet(
            folder,
            a=floats(40),
            name=[f"n{n}" for n in range(40)],
            gap=[None if n == 30 else n for n in range(40)],
            pair=[[n * 1000, n] for n in range(40)],
            label=CLASSES,
        ),
        "tabular",
        "3 classes",
        False,
    ),
    "arrays with other names": (
        lambda folder: np.savez(folder / "b.npz", Y=CLASSES, X=floats(40, 12)) or "b.npz",
        "mlp",
        "3 classes",
        False,
    ),
    "Parquet of lists": (lambda folder: parquet(folder, x=list(floats(40, 9)), y=CLASSES), "mlp", "3 classes", False),
    "image folders": (folders, "cnn", "2 classes", True),
    "records": (
        lambda folder: records(folder, lambda n: {"x": floats(9), "id": b"a", "label": n % 4}),
        "mlp",
        "4 classes",
        False,
    ),
    "records of images": (
        lambda folder: records(folder, lambda n: {"image": PNG, "label": n % 4, "height": 16}),
        "cnn",
        "4 classes",
        False,
    ),
}

QUICK = ("vectors", "images in arrays", "arrays with other names", "numbers", "CSV", "image folders")
"""What the default tests try: each of the models, and each kind of data that has more than arrays."""


def init(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", "init", *arguments])


def losses(config: RunConfig) -> list[float]:
    """Of two epochs of its training."""
    keras_repairs.install()
    model = checked_objects(config, tf.distribute.get_strategy()).model
    train = from_config(config.data.train, config.data.batch_size, 1).batches
    section = config.data.validation
    validation = None if section is None else from_config(section, config.data.batch_size, 1).batches
    return model.fit(train, validation_data=validation, epochs=2, verbose=0).history["loss"]


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in CASES])
def test_a_starter_trains_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, model, labels, validates = CASES[name]
    monkeypatch.chdir(tmp_path)
    done = init(make(tmp_path))
    assert done.exit_code == 0, done.stderr
    assert f"labels: {labels}" in done.stdout
    config = load_config("tfdist.yaml")
    assert config.model.build == f"tfdist.models.{model}"
    assert (config.data.validation is not None) == validates
    assert str(tmp_path) not in Path("tfdist.yaml").read_text()  # a folder that is moved as a whole still trains
    assert all(math.isfinite(loss) for loss in losses(config))


def test_what_is_left_out_and_taken_for_the_label_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "a,name,b", [f"{n},n{n},{n / 7}" for n in range(40)])
    done = init("a.csv")
    label = "the label is taken to be the last column: --label names another"
    texts = "columns that hold texts are left out: name"
    for note in (label, texts):
        assert f"  {note}\n" in done.stdout and f"  # {note}\n" in Path("tfdist.yaml").read_text()
    assert init("a.csv", "other.yaml", "--label", "a").exit_code == 0
    other = load_config("other.yaml")
    assert (other.data.train.label, other.name) == ("a", "a")
    # A size that is large at the end of a table comes to mean 0 and variance 1 as the others do.
    assert load_config("other.yaml").model.args["inputs"] == [1]
    assert records(tmp_path, lambda n: {"x": floats(9), "id": b"a", "label": n % 4}) == "shards"
    done = init("shards", "records.yaml")
    assert "the models here take one input: features that are left out: id" in done.stdout


def test_nothing_that_is_there_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = npz(tmp_path, CLASSES, 12)
    (tmp_path / "tfdist.yaml").write_text("mine")
    done = init(data)
    assert (done.exit_code, done.stdout) == (2, "")
    problem = "tfdist.yaml exists. Expected a name that is free: it is never replaced. Name another one."
    assert done.stderr == f"error: {problem}\n"
    assert (tmp_path / "tfdist.yaml").read_text() == "mine"
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere")
    assert init(data, "link.yaml").exit_code == 2 and not (tmp_path / "nowhere").exists()


REFUSED: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "nothing": (lambda folder: ["none.npz"], 5, "There is no .*none.npz. Expected an .npz, .csv, .parquet or .tfr"),
    "another format": (lambda folder: [__file__], 5, "Expected an .npz, .csv, .parquet or .tfr.* Received: .*docs/dat"),
    "a tar": (
        lambda folder: [str((folder / "a.tar").write_bytes(b"")) and "a.tar"],
        5,
        "Received: a.tar. A config of webdataset is written by hand: `format: webdataset`, see docs/data.md",
    ),
    "a dataset of TensorFlow Datasets": (
        lambda folder: [str((folder / "dataset_info.json").write_text("{}")) and "."],
        5,
        "has none of these. .* `format: tfds`, see docs/data.md",
    ),
    "texts as labels": (lambda folder: [parquet(folder, a=floats(40), b=["x"] * 40)], 5, "The column b .* with texts"),
    "no Parquet": (
        lambda folder: [str((folder / "a.parquet").write_bytes(b"PAR1")) and parquet(folder, a=floats(40), b=CLASSES)],
        5,
        "a.parquet cannot be read as a Parquet file: ",
    ),
    "an empty folder": (lambda folder: ["."], 5, "has none of these. Expected an .npz, "),
    "no arrays": (lambda folder: [np.savez(folder / "b.npz", x=floats(3)) or "b.npz"], 5, "names. .* Received: x$"),
    "an absent array": (lambda folder: [npz(folder, CLASSES, 12), "--x", "X"], 5, "has no array X. Expected"),
    "text labels": (lambda folder: [npz(folder, CLASSES.astype("U1"), 12)], 5, "The labels have the type <U1"),
    "labels of a table": (lambda folder: [table(folder, "a,b", ["1,cat"] * 9)], 5, "The column b of .* holds texts"),
    "one column": (lambda folder: [table(folder, "b", ["1"] * 9)], 5, "no column of numbers besides the label b"),
    "an unknown label": (
        lambda folder: [table(folder, "a,b", ["1,2"] * 9), "--label", "c"],
        5,
        "There is no column c. Expected --label, one of a, b.",
    ),
    "a label of folders": (lambda folder: [folders(folder), "--label", "y"], 2, "--label names a column of CSV"),
    "an array of a table": (lambda folder: [table(folder, "a,b", ["1,2"] * 9), "--x", "a"], 2, "--x names an array of"),
    "records without a label": (
        lambda folder: [records(folder, lambda n: {"x": floats(9), "kind": n})],
        5,
        "No feature is called label, .*. Expected --label, one of kind, x.",
    ),
    "no name of a config": (lambda folder: [npz(folder, CLASSES, 12), "a.txt"], 2, "Expected the name of a config, su"),
    "no folder": (lambda folder: [npz(folder, CLASSES, 12), "none/a.yaml"], 2, "none/a.yaml cannot be written: No suc"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_config_can_be_made_of_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, code, message = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    done = init(*make(tmp_path))
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1
    assert re.search(message, done.stderr), done.stderr
    assert not list(tmp_path.glob("*.yaml"))
