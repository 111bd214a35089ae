"""Outputs that were kept of a teacher: each comes with its sample, and those of other samples are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.config import load_config
from tfdist.config.load import load_parts
from tfdist.data import from_config
from tfdist.errors import DataError
from tfdist.keras_repairs.distillation.distilled_loss import LABELS, TEACHER
from tfdist.order.epoch_span import START, Position
from tfdist.rundir.atomic_files import write_json
from tfdist.training.config_objects.objects import check_parts, checked_objects
from tfdist.training.config_objects.teachers import KeptTeacher
from tfdist.training.inference.outputs.kept_outputs import MANIFEST_FILE, KeptOutputs, identity
from tfdist.training.inference.outputs.output_formats import OutputColumn
from tfdist.training.inference.outputs.tfrecord_output import shard_count, write_shards

SAMPLES, BATCH = 29, 8
CONFIG = """\
model: {build: tfdist.models.mlp, args: {inputs: [3], hidden: [4], classes: 2}}
compile: {optimizer: sgd, loss: sparse_categorical_crossentropy}
data: {batch_size: 8, train: {format: npz, path: a.npz, split: train, shuffle: true}}
fit: {distill: {teacher: {outputs: said}}}
"""


def said_of(x: np.ndarray) -> np.ndarray:
    """What the teacher says of a sample shows which one it is."""
    return np.stack([x[:, 0], 1.0 - x[:, 0]], axis=1).astype(np.float32)


def keep(folder: Path, x: np.ndarray, checksum: int, names: tuple[str, ...] = ("output",), **changes: Any) -> None:
    columns = tuple(OutputColumn(name, "float32", (2,)) for name in names)
    folder.mkdir()

    def blocks() -> Any:
        for start in range(0, len(x), 7):
            yield start, [said_of(x[start : start + 7]) for _ in names]

    files = write_shards(folder, columns, len(x), blocks, 3)
    data = {"format": "npz", "split": "train", "sharding": "auto"}
    kept = KeptOutputs(len(x), columns, files, dict.fromkeys(names, "probabilities"), "teacher.keras", checksum, data)
    write_json(folder / MANIFEST_FILE, kept.to_json() | changes)


@pytest.fixture
def samples() -> np.ndarray:
    x = np.random.default_rng(4).uniform(0.1, 0.9, (SAMPLES, 3)).astype(np.float32)
    x[:, 0] = np.linspace(0.1, 0.9, SAMPLES)
    return x


@pytest.fixture
def config_file(tmp_path: Path, samples: np.ndarray) -> Path:
    labels = {"y_train": np.arange(SAMPLES) % 2, "y_test": np.zeros(SAMPLES)}
    np.savez(tmp_path / "a.npz", x_train=samples, x_test=samples, **labels)
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    source = from_config(load_config(path).data.train, BATCH, 1).source
    keep(tmp_path / "said", samples, source.fingerprint().checksum)
    return path


def batches_of(
    config_file: Path, strategy: tf.distribute.Strategy, begin: Position = START, **options: Any
) -> Callable[[], list[Any]]:
    """Returns the parts of an epoch's batches, over all replicas in their order."""
    config = load_config(config_file)
    values = {"data.train": config.data.train}
    assert config.fit.distill is not None
    kept = KeptTeacher(config.fit.distill, values)
    opened = from_config(
        config.data.train, BATCH, 5, strategy, begin=begin, open_companion=kept.open_companion, **options
    )

    def epoch() -> list[Any]:
        found = []
        for batch in opened.begin(begin):
            parts = [strategy.experimental_local_results(leaf) for leaf in tf.nest.flatten(batch)]
            found.append([np.concatenate([piece.numpy() for piece in leaf]) for leaf in parts])
        return found

    return epoch


@pytest.mark.parametrize("begin", [START, Position(1, 2)])
@pytest.mark.parametrize("weights", [None, {1: 3.0}])
def test_each_sample_has_its_own(
    strategy: tf.distribute.Strategy, begin: Position, weights: Any, config_file: Path, samples: np.ndarray
) -> None:
    """On sizes that do not divide, from the middle of an epoch too, in an order of each epoch's own."""
    found = batches_of(config_file, strategy, begin, class_weight=weights)()
    firsts = []
    for x, labels, said, *weight in found:
        np.testing.assert_array_equal(said, said_of(x))
        numbers = np.searchsorted(samples[:, 0], x[:, 0])
        assert (labels == numbers % 2).all() and len(weight) == (weights is not None)
        firsts += numbers.tolist()
    assert len(firsts) == SAMPLES - begin.step * BATCH and firsts != sorted(firsts)
    assert len(set(firsts)) == len(firsts)


def test_the_structure_of_a_batch(config_file: Path) -> None:
    config = load_config(config_file)
    assert config.fit.distill is not None
    kept = KeptTeacher(config.fit.distill, {"data.train": config.data.train})
    spec = from_config(config.data.train, BATCH, 5, open_companion=kept.open_companion).batches.element_spec
    assert spec[1].keys() == {LABELS, TEACHER} and spec[1][TEACHER]["output"].shape == (None, 2)


class Said(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return keras.ops.stack([x[:, 0], 1.0 - x[:, 0]], axis=1)


def said() -> keras.Model:
    """The teacher that says what was kept."""
    return keras.Sequential([keras.Input((3,)), Said()])


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_training_is_that_of_the_live_teacher(replicas: int, config_file: Path, samples: np.ndarray) -> None:
    strategy = tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)
    np.testing.assert_array_equal(said().predict(samples, verbose=0), said_of(samples))
    live = [f"fit.distill.teacher={{build: {__name__}.said}}", "fit.distill.teacher_gives=probabilities"]
    ends = []
    for overrides in ([], live, ["fit.distill=null"]):
        keras.utils.set_random_seed(3)
        config = load_config(config_file, overrides)
        made = checked_objects(config, strategy)
        kept = None if made.lesson is None else made.lesson.kept
        companion = None if kept is None else kept.open_companion
        assert (companion is None) == bool(overrides)
        data = from_config(config.data.train, BATCH, 5, strategy, open_companion=companion)
        history = made.model.fit(data.batches, epochs=2, shuffle=False, verbose=0).history
        ends.append([*made.model.get_weights(), np.array(history["loss"])])
    for one, other in zip(*ends[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
    assert np.abs(ends[0][0] - ends[2][0]).max() > 1e-4


def problems(config_file: Path, *overrides: str) -> list[str]:
    parts = load_parts(config_file, overrides)
    assert not parts.problems
    return [str(problem) for problem in check_parts(parts.values, tf.distribute.get_strategy())]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["fit.distill.teacher={outputs: nowhere}"], "fit.distill.teacher.outputs: "),
        (["data.train.augment=os.path.join"], "data.train.augment: expected none beside fit.distill.teacher.outputs: "),
        (["data.train.sharding=none"], "data.train.sharding: expected auto beside fit.distill.teacher.outputs: k"),
        (["model.args.classes=5"], "fit.distill.teacher: expected a teacher whose output has the shape of the student"),
    ],
)
def test_what_does_not_fit(overrides: list[str], message: str, config_file: Path) -> None:
    assert problems(config_file) == []
    (problem,) = problems(config_file, *overrides)
    assert problem.startswith(message), problem


def test_outputs_that_do_not_say_what_they_are(config_file: Path, tmp_path: Path, samples: np.ndarray) -> None:
    keep(tmp_path / "other", samples, 1, gives={})
    (problem,) = problems(config_file, f"fit.distill.teacher={{outputs: {tmp_path / 'other'}}}")
    assert problem.startswith("fit.distill.teacher_gives: expected logits or probabilities")


@pytest.mark.parametrize(
    "overrides",
    [["data.train.split=test"], ["data.train.path=b.npz"]],
    ids=["another split of as many samples", "another file of as many"],
)
def test_outputs_of_other_samples(overrides: list[str], config_file: Path, tmp_path: Path, samples: np.ndarray) -> None:
    np.savez(tmp_path / "b.npz", x_train=samples + 1, y_train=np.zeros(SAMPLES))
    given = [entry.replace("b.npz", str(tmp_path / "b.npz")) for entry in overrides]
    config = load_config(config_file, given)
    assert config.fit.distill is not None
    kept = KeptTeacher(config.fit.distill, {"data.train": config.data.train})
    with pytest.raises(DataError, match=r"has the outputs of teacher.keras for other data: 29 samples.* data predict"):
        from_config(config.data.train, BATCH, 5, open_companion=kept.open_companion)


def test_samples_that_can_only_be_read_in_sequence(config_file: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "a.tfrecord.gz")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP")) as writer:
        feature = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[1.0])) for name in "xy"}
        writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    features = "{x: {dtype: float32}, y: {dtype: float32}}"
    train = f"{{format: tfrecord, files: {path}, features: {features}, label: y}}"
    config = load_config(config_file, [f"data.train={train}"])
    assert config.fit.distill is not None
    kept = KeptTeacher(config.fit.distill, {"data.train": config.data.train})
    with pytest.raises(DataError, match=r"data.train can only be read in sequence.*tfdist data shard"):
        from_config(config.data.train, BATCH, 5, open_companion=kept.open_companion)


def test_files_are_the_same_however_outputs_lie_in_parts(tmp_path: Path, samples: np.ndarray) -> None:
    columns = (OutputColumn("output", "float32", (2,)),)
    whole = said_of(samples)

    def written(name: str, sizes: int) -> list[bytes]:
        folder = tmp_path / name
        folder.mkdir()

        def blocks() -> Any:
            for start in range(0, SAMPLES, sizes):
                yield start, [whole[start : start + sizes]]

        files = write_shards(folder, columns, SAMPLES, blocks, 4)
        assert [file.samples for file in files] == [7, 7, 7, 8]
        return [(folder / file.name).read_bytes() for file in files]

    assert written("a", 5) == written("b", SAMPLES)


def test_how_many_files() -> None:
    small = (OutputColumn("output", "float32", (2,)),)
    assert shard_count(small, 5) == 1
    assert shard_count((OutputColumn("output", "float32", (1 << 20,)),), 100) == 4
    assert shard_count((OutputColumn("output", "float64", (1 << 26,)),), 2) == 2
    assert identity({"format": "npz", "path": "a"}) == {"format": "npz"}
