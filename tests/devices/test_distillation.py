"""`fit.distill` of a config: the numbers of Keras's own Distiller, what is saved, and teachers that do not fit."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.config import load_config
from tfdist.config.load import load_parts
from tfdist.keras_repairs.distillation.soft_targets import Softening, SoftTargets
from tfdist.keras_repairs.model_checks.model_facts import is_overridden, is_users_step
from tfdist.training.config_objects.objects import check_parts, checked_objects

CONFIG = """\
model: {build: tests.devices.test_distillation.student}
compile:
  optimizer: sgd
  loss: {name: sparse_categorical_crossentropy, from_logits: true}
data: {batch_size: 16, train: {format: npz, path: a.npz, split: train}}
fit: {distill: {teacher: teacher.keras, temperature: 2, alpha: 0.6}}
"""
SAMPLES, CLASSES = 50, 3


def student(classes: int = CLASSES) -> keras.Model:
    hidden = [keras.layers.Dense(5, "tanh"), keras.layers.Dropout(0.4)]
    return keras.Sequential([keras.Input((6,)), *hidden, keras.layers.Dense(classes)])


def probable_student() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(CLASSES, "softmax")])


def plain_student() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(CLASSES)])


class OwnStep(keras.Sequential):
    def train_step(self, data: Any) -> dict[str, Any]:
        return super().train_step(data)


def student_with_a_step() -> keras.Model:
    return OwnStep([keras.Input((6,)), keras.layers.Dense(CLASSES)])


def teacher(classes: int = CLASSES) -> keras.Model:
    noisy = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.9)]
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), *noisy, keras.layers.Dense(classes)])


@keras.saving.register_keras_serializable("tests")
def registered_teacher(size: int) -> keras.Model:
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(size), keras.layers.Dense(CLASSES)])


def nameless_teacher() -> keras.Model:
    x = keras.Input((6,))
    return keras.Model(x, 2.0 * keras.layers.Dense(CLASSES)(x))


def two_outputs() -> keras.Model:
    x = keras.Input((6,))
    return keras.Model(x, {name: keras.layers.Dense(CLASSES, name=name)(x) for name in ("left", "right")})


def unbuilt_teacher() -> keras.Model:
    return keras.Sequential([keras.layers.Dense(CLASSES)])


def other_teacher() -> keras.Model:
    return keras.Sequential([keras.Input((9,)), keras.layers.Dense(CLASSES)])


def no_teacher() -> str:
    return "teacher"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    x = generator.normal(size=(SAMPLES, 6)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=generator.integers(0, CLASSES, SAMPLES))
    keras.utils.set_random_seed(1)
    teacher().save(tmp_path / "teacher.keras")
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    return path


def samples(config_file: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(config_file.parent / "a.npz") as arrays:
        return arrays["x_train"], arrays["y_train"]


def test_the_numbers_of_keras(config_file: Path) -> None:
    """Of `LogitsDistillation` with a softened divergence; its logs are means of batches, of one size here."""
    x, y = samples(config_file)
    options = ["model.build=tests.devices.test_distillation.plain_student"]
    keras.utils.set_random_seed(7)
    ours = checked_objects(load_config(config_file, options), tf.distribute.get_strategy()).model
    logged = ours.fit(x, y, batch_size=25, epochs=3, shuffle=False, verbose=0).history
    keras.utils.set_random_seed(7)
    same = plain_student()
    theirs = keras.distillation.Distiller(
        keras.models.load_model(config_file.parent / "teacher.keras"),
        same,
        keras.distillation.LogitsDistillation(2.0, keras.losses.KLDivergence()),
        student_loss_weight=0.4,
    )
    theirs.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    expected = theirs.fit(x, y, batch_size=25, epochs=3, shuffle=False, verbose=0).history
    del expected["total_loss"]
    assert logged.keys() == expected.keys() == {"loss", "student_loss", "distillation_loss"}
    for name, values in expected.items():
        assert logged[name] == pytest.approx(values, rel=1e-4), name
    for own, other in zip(ours.get_weights(), theirs.student.get_weights(), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize("replicas", [2, slow(3)])
def test_both_parts_of_the_loss_are_logged(replicas: int, config_file: Path, tmp_path: Path) -> None:
    """On 50 samples in batches of 16, the last of which has 2; an evaluation has the loss of the labels alone."""
    x, y = samples(config_file)
    weights = np.linspace(0.5, 2.0, SAMPLES).astype(np.float32)
    plain = "model.build=tests.devices.test_distillation.plain_student"
    histories = []
    for number in (1, replicas):
        keras.utils.set_random_seed(7)
        model = checked_objects(load_config(config_file, [plain]), strategy_of(number)).model
        options = {"batch_size": 16, "epochs": 2, "shuffle": False, "verbose": 0, "validation_data": (x, y)}
        histories.append(model.fit(x, y, sample_weight=weights, **options).history)
    expected, found = histories
    assert found.keys() == expected.keys() == {"loss", "val_loss", "student_loss", "distillation_loss"}
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-5), name
    for loss, of_labels, of_teacher in zip(*map(found.get, ("loss", "student_loss", "distillation_loss")), strict=True):
        assert loss == pytest.approx(0.4 * of_labels + 0.6 * of_teacher, rel=1e-5)
        assert of_teacher > 0.01
    model.save(tmp_path / "student.keras")
    assert len(keras.models.load_model(tmp_path / "student.keras").variables) == len(model.variables)


def test_the_student_alone_is_saved_and_the_teacher_stays(config_file: Path, tmp_path: Path) -> None:
    x, y = samples(config_file)
    model = checked_objects(load_config(config_file), tf.distribute.get_strategy()).model
    before = keras.models.load_model(tmp_path / "teacher.keras").get_weights()
    model.fit(x, y, batch_size=16, verbose=0)
    model.save(tmp_path / "student.keras")
    with zipfile.ZipFile(tmp_path / "student.keras") as file:
        assert b"batch_normalization" not in file.read("config.json")
    loaded = keras.models.load_model(tmp_path / "student.keras")
    assert loaded.count_params() == student().count_params()
    assert loaded.loss.from_logits and len(model.weights) == 4 and len(model.trainable_weights) == 4
    # It is evaluated as any model: by the loss of the labels.
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx(model.evaluate(x, y, verbose=0), rel=1e-6)
    after = keras.models.load_model(tmp_path / "teacher.keras").get_weights()
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_its_steps_count_as_those_of_keras(config_file: Path) -> None:
    """So that nothing of them is tried out, and several of them run in one execution."""
    model = checked_objects(load_config(config_file), tf.distribute.get_strategy()).model
    assert not any(is_users_step(model, step) for step in ("train_step", "test_step"))
    assert not is_overridden(model, "compute_metrics")
    model.compute_loss = student
    assert is_users_step(model, "train_step")


def test_a_model_begins_with_the_weights_that_it_has_without_a_teacher(config_file: Path) -> None:
    def begun(*options: str) -> list[np.ndarray]:
        keras.utils.set_random_seed(7)
        model = checked_objects(load_config(config_file, options), tf.distribute.get_strategy()).model
        # Layers that are made later draw as without, too.
        return [*model.get_weights(), keras.layers.Dense(3)(np.ones((1, 4))).numpy()]

    for one, other in zip(begun(), begun("fit.distill=null"), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(
    ("kind", "student_logits", "teacher_logits"),
    [("categorical", True, False), ("categorical", False, True), ("binary", True, False), ("binary", False, True)],
)
def test_logits_and_probabilities_say_the_same(kind: Any, student_logits: bool, teacher_logits: bool) -> None:
    generator = np.random.default_rng(2)
    of_student, of_teacher = generator.normal(size=(2, 9, 4)).astype(np.float32)
    probable = keras.ops.softmax if kind == "categorical" else keras.ops.sigmoid
    expected = SoftTargets(Softening(kind, True, True), 3.0)(of_teacher, of_student)
    found = SoftTargets(Softening(kind, student_logits, teacher_logits), 3.0)(
        of_teacher if teacher_logits else probable(of_teacher), of_student if student_logits else probable(of_student)
    )
    assert float(found) == pytest.approx(float(expected), rel=1e-4)
    assert float(expected) > 0.1
    assert float(SoftTargets(Softening(kind, True, True), 3.0)(of_teacher, of_teacher)) == pytest.approx(0, abs=1e-6)


def strategy_of(replicas: int) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)


def two_of_each() -> keras.Model:
    """One output gives logits, the other probabilities."""
    x = keras.Input((6,))
    left, right = keras.layers.Dense(CLASSES, name="left")(x), keras.layers.Dense(2, "sigmoid", name="right")(x)
    return keras.Model(x, {"left": left, "right": right})


def three_of_each() -> keras.Model:
    """A teacher with the other of both, and an output that nobody learns from."""
    ones = keras.initializers.RandomNormal(seed=3)
    x = keras.Input((6,))
    outputs = {"left": keras.layers.Dense(CLASSES, "softmax", kernel_initializer=ones, name="left")(x)}
    outputs["right"] = keras.layers.Dense(2, kernel_initializer=ones, name="right")(x)
    return keras.Model(x, outputs | {"other": keras.layers.Dense(1, name="other")(x)})


def divergence(of_teacher: np.ndarray, of_student: np.ndarray) -> np.ndarray:
    """Of the softmax of logits along the last axis, at the temperature 2, times its square."""
    teacher, student = (
        np.exp(logits / 2 - np.logaddexp.reduce(logits / 2, axis=-1)[..., None]) for logits in (of_teacher, of_student)
    )
    return 4 * np.sum(teacher * np.log(teacher / student), axis=-1)


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize("replicas", [1, slow(3)])
def test_several_outputs(replicas: int, config_file: Path) -> None:
    """Each learns from that of its name, by its weight and those of the samples; in NumPy, on 50 samples in a step."""
    overrides = [
        f"model.build={HERE}.two_of_each",
        "compile.loss={left: {name: sparse_categorical_crossentropy, from_logits: true}, right: binary_crossentropy}",
        "compile.loss_weights={left: 0.5, right: 2.0}",
        "compile.optimizer={name: sgd, learning_rate: 0.0}",
        built("three_of_each"),
        f"data.train={{format: generator, function: {HERE}.no_teacher, samples: 50}}",
    ]
    model = checked_objects(load_config(config_file, overrides), strategy_of(replicas)).model
    x, left = samples(config_file)
    weights = np.linspace(0.5, 2.0, SAMPLES).astype(np.float32)
    y, w = {"left": left, "right": (x[:, :2] > 0).astype(np.float32)}, {"left": weights, "right": weights}
    logged = model.fit(x, y, batch_size=SAMPLES, sample_weight=w, verbose=0).history["loss"][0]
    of_labels = model.evaluate(x, y, batch_size=SAMPLES, sample_weight=w, verbose=0, return_dict=True)["loss"]
    own, said = (
        {name: np.asarray(value, np.float64) for name, value in one.predict(x, verbose=0).items()}
        for one in (model, three_of_each())
    )
    soft = 0.5 * np.mean(weights * divergence(np.log(said["left"]), own["left"]))
    odds = np.log(own["right"] / (1 - own["right"]))
    # A choice between two is one between a logit and 0.
    pairs = [np.stack([logits, np.zeros_like(logits)], axis=-1) for logits in (said["right"], odds)]
    soft += 2.0 * np.mean(weights * divergence(*pairs).mean(axis=-1))
    assert soft > 0.001
    assert logged == pytest.approx(0.4 * of_labels + 0.6 * soft, rel=1e-5)


def tagger() -> keras.Model:
    """Of each word, whose padding is masked."""
    embedding = keras.layers.Embedding(9, 4, mask_zero=True)
    return keras.Sequential([keras.Input((5,)), embedding, keras.layers.Dense(CLASSES)])


def tagging_teacher() -> keras.Model:
    normal = keras.initializers.RandomNormal(stddev=1.0, seed=3)
    embedding = keras.layers.Embedding(9, 4, embeddings_initializer=normal)
    return keras.Sequential([keras.Input((5,)), embedding, keras.layers.Dense(CLASSES, kernel_initializer=normal)])


@pytest.mark.usefixtures("repaired")
@pytest.mark.parametrize("replicas", [1, 3])
def test_masked_steps_count_for_nothing(replicas: int, config_file: Path) -> None:
    overrides = [
        f"model.build={HERE}.tagger",
        "compile.optimizer={name: sgd, learning_rate: 0.0}",
        "fit.distill.alpha=1",
        built("tagging_teacher"),
        f"data.train={{format: generator, function: {HERE}.no_teacher, samples: 50}}",
    ]
    model = checked_objects(load_config(config_file, overrides), strategy_of(replicas)).model
    words = np.random.default_rng(6).integers(1, 9, (SAMPLES, 5))
    words[np.arange(5) >= np.random.default_rng(7).integers(1, 6, SAMPLES)[:, None]] = 0
    logged = model.fit(words, np.zeros((SAMPLES, 5)), batch_size=SAMPLES, verbose=0).history["loss"][0]
    of_teacher, own = (one.predict(words, verbose=0).astype(np.float64) for one in (tagging_teacher(), model))
    values = divergence(of_teacher, own)
    assert logged == pytest.approx(values[words > 0].mean(), rel=1e-5) != pytest.approx(values.mean(), rel=1e-5)


def found(config_file: Path, *overrides: str) -> list[str]:
    parts = load_parts(config_file, overrides)
    assert not parts.problems
    return [str(problem) for problem in check_parts(parts.values, tf.distribute.get_strategy())]


HERE = "tests.devices.test_distillation"


def built(name: str, **args: int) -> str:
    return f"fit.distill.teacher={{build: {HERE}.{name}, args: {args}}}"


@pytest.mark.parametrize(
    "override",
    [
        "fit.epochs=2",
        built("teacher"),
        "fit.distill.teacher={name: 'tests>registered_teacher', size: 4}",
        f"model.build={HERE}.probable_student",
    ],
)
def test_teachers_that_fit(override: str, config_file: Path) -> None:
    more = ["compile.loss=categorical_focal_crossentropy"] if "probable" in override else []
    assert found(config_file, override, *more) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([built("teacher", classes=4)], "fit.distill.teacher: expected a teacher whose output has the shape of the st"),
        (["fit.distill.teacher=missing.keras"], "fit.distill.teacher: There is no model "),
        (["fit.distill.teacher=missing"], "fit.distill.teacher: There is no model "),
        (["fit.distill.checkpoint=best"], "fit.distill.teacher: fit.distill.checkpoint chooses among those of a run"),
        ([built("no_teacher")], "fit.distill.teacher: expected what makes a keras.Model. Received: {\"build"),
        ([built("teacher", depth=4)], "fit.distill.teacher.args.depth: "),
        ([built("unbuilt_teacher")], "fit.distill.teacher: it has no variables before it has seen data"),
        ([built("nameless_teacher")], "fit.distill.teacher_gives: expected logits or probabilities, as the last layer"),
        (["fit.distill.teacher={name: 'tests>unknown'}"], "fit.distill.teacher.name: nothing is registered under this"),
        (["fit.distill.teacher={name: 'tests>registered_teacher'}"], "fit.distill.teacher: "),
        ([built("other_teacher")], "fit.distill.teacher: data.train is not what the teacher takes: the samples do not"),
        (["compile.loss=mse"], "compile.loss: expected beside fit.distill a loss that says whether the model gives l"),
        ([f"compile.loss={{build: {HERE}.own_loss}}"], "compile.loss: expected beside fit.distill a loss that says"),
        ([f"model.build={HERE}.student_with_a_step"], "fit.distill: expected a model whose steps are Keras's. Receiv"),
    ],
)
def test_teachers_that_do_not_fit(overrides: list[str], message: str, config_file: Path, tmp_path: Path) -> None:
    given = [entry.replace("=missing", f"={tmp_path}/missing") for entry in overrides]
    (problem,) = found(config_file, *given)
    assert problem.startswith(message), problem


def own_loss() -> Any:
    return lambda y_true, y_pred: keras.ops.mean(y_pred, axis=-1)


def test_a_teacher_that_does_not_say_what_it_gives_and_one_with_other_outputs(config_file: Path) -> None:
    assert found(config_file, built("nameless_teacher"), "fit.distill.teacher_gives=logits") == []
    (problem,) = found(config_file, built("two_outputs"))
    assert problem.startswith("fit.distill.teacher: expected a teacher with an output output, as the student has")


def test_a_damaged_teacher(config_file: Path) -> None:
    path = config_file.parent / "teacher.keras"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    (problem,) = found(config_file)
    assert problem.startswith("fit.distill.teacher: ") and "teacher.keras is damaged" in problem
