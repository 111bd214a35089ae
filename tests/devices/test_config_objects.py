"""The objects that a config describes: what is wrong with them is found at once, by key, and what is right is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.test_data_config_datasets import folder, sections  # noqa: F401 - a fixture
from tests.exactness.later_classes import has
from tfdist.config import RunConfig, load_config
from tfdist.config.load import load_parts
from tfdist.data import from_config
from tfdist.data.format_registry import sample_specs
from tfdist.errors import ConfigError, DataError
from tfdist.training.config_objects.objects import check_parts, checked_objects

CONFIG = """\
model: {build: tfdist.models.mlp, args: {inputs: [64], hidden: [8], classes: 10}}
compile: {optimizer: adam, loss: sparse_categorical_crossentropy, metrics: [accuracy]}
data:
  batch_size: 128
  train: {format: npz, path: a.npz, split: train}
  validation: {format: npz, path: a.npz, split: test}
"""


def failing(inputs: int) -> keras.Model:
    """A builder of the user's own, with a mistake in it."""
    raise KeyError("width")


def two_outputs() -> keras.Model:
    x = keras.Input([64])
    return keras.Model(x, {name: keras.layers.Dense(2, name=name)(x) for name in ("left", "right")})


def half_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.losses.mean_squared_error(y_true, y_pred) / 2


def make_half_loss() -> Any:
    return half_loss


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    arrays = {"x_train": np.zeros((9, 64)), "y_train": np.zeros(9, int)}
    np.savez(tmp_path / "a.npz", **arrays, x_test=np.zeros((3, 64)), y_test=np.zeros(3, int))
    path = tmp_path / "a.yaml"
    path.write_text(CONFIG)
    return path


def found(config_file: Path, *overrides: str) -> list[tuple[str, int]]:
    parts = load_parts(config_file, overrides)
    problems = check_parts(parts.values, tf.distribute.get_strategy())
    return [(str(problem), problem.exit_code) for problem in problems]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("compile.weighted_metrics=[accuraci]", "compile.weighted_metrics.0: Keras has no metric accuraci; did you me"),
        ("compile.weighted_metrics={out: mse}", "compile.weighted_metrics.out: the model has no such output. Expected"),
        ("compile.optimizer=adamx", "compile.optimizer: Keras has no optimizer adamx; did you mean adamax? Expected "),
        ("compile.optimizer={name: Adem}", "compile.optimizer.name: Keras has no optimizer Adem; did you mean adam?"),
        ("compile.optimizer=xyzzy", "Keras has no optimizer xyzzy; expected one of adadelta, adafactor, adagrad, adam"),
        (
            "compile.optimizer={name: adam, learning_rat: 1}",
            "compile.optimizer.learning_rat: Adam has no such argument; did you mean learning_rate? Expected one of le",
        ),
        ("compile.optimizer={name: adam, learning_rate: fast}", "compile.optimizer: Adam refuses "),
        (
            "compile.optimizer={name: adam, learning_rate: {name: cosine}}",
            "compile.optimizer.learning_rate.name: Keras has no learning rate schedule cosine; did you mean cosine_dec",
        ),
        (
            "compile.optimizer={name: adam, learning_rate: {name: cosine_decay, decay_steps: 3}}",
            "compile.optimizer.learning_rate: CosineDecay needs initial_learning_rate as well. Received: only decay_st",
        ),
        (
            "compile.optimizer={build: keras.losses.Huber}",
            "compile.optimizer.build: expected a class or a function that makes a keras Optimizer. Received: keras.los",
        ),
        ("compile.optimizer={build: keras.none.A}", "compile.optimizer.build: keras has no none"),
        ("compile.loss=sparse_crossentropy", "compile.loss: Keras has no loss sparse_crossentropy; did you mean "),
        ("compile.loss={name: huber, delta: 1, size: 2}", "compile.loss.size: Huber has no such argument. Expected "),
        ("compile.metrics=[accuraci]", "compile.metrics.0: Keras has no metric accuraci; did you mean accuracy? Expec"),
        ("compile.metrics=[accuracy, {name: auk}]", "compile.metrics.1.name: Keras has no metric auk; did you mean au"),
        ("compile.metrics={out: mse}", "compile.metrics.out: the model has no such output. Expected one of dense"),
        ("compile.loss=[mse, mse]", "compile.loss: expected one for each of the model's 1 output(s), dense"),
        ("compile.loss_weights=[1, 2]", "compile.loss_weights: expected one for each of the model's 1 output(s)"),
        ("model.build=os.nothing", "model.build: os has no nothing. Received: os.nothing"),
        ("model={build: os.getcwd}", "model.build: expected a function that returns a keras.Model. Received: os."),
        ("model.args.hiden=[3]", "mlp has no such argument; did you mean hidden? Expected one of inputs, hidden, clas"),
        ("model.args={inputs: [64]}", "mlp needs hidden, classes as well. Received: only inputs"),
        ("model.args={inputs: [64], hidden: [-3], classes: 10}", "model.args: tfdist.models.classifiers.mlp refuses "),
        (
            f"model={{build: {__name__}.failing, args: {{inputs: 3}}}}",
            f"failing raised KeyError in {__file__}, line ",
        ),
    ],
)
def test_a_mistake_is_found_by_its_key(config_file: Path, entry: str, message: str) -> None:
    (problem,) = found(config_file, entry)
    assert message in problem[0] and problem[1] == 2
    assert re.match(entry.partition("=")[0], problem[0])


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        ("earlystop", "0: Keras has no callback earlystop; did you mean early_stopping? Expected Keras's name of one"),
        ("{name: early_stopping, patiens: 3}", "0.patiens: EarlyStopping has no such argument; did you mean patience?"),
        ("{name: early_stopping, mode: up, monitor: 3, foo: 1}", "0.foo: EarlyStopping has no such argument"),
        ("{name: reduce_lr_on_plateau, factor: 2}", "0: ReduceLROnPlateau refuses "),
        ("backup_and_restore", "0: BackupAndRestore is for scripts; a run saves itself and resumes at the next step: "),
        ("{name: model_checkpoint, filepath: a.keras}", "0: ModelCheckpoint is for scripts; checkpoint.best keeps the"),
        ("{build: keras.callbacks.ModelCheckpoint, args: {filepath: a.keras}}", "0: ModelCheckpoint is for scripts; "),
        pytest.param(
            "orbax_checkpoint",
            "0: OrbaxCheckpoint is for scripts; a run saves itself and resumes",
            marks=pytest.mark.skipif(not has("callbacks.OrbaxCheckpoint"), reason="this Keras has none"),
        ),
        ("{name: csv_logger, filename: a.csv}", "0: CSVLogger is for scripts; a run writes its metrics into metrics.j"),
        ("history", "0: History is for scripts; a run writes history.json"),
        ("progbar_logger", "0: ProgbarLogger is for scripts; a run shows its progress: tfdist train --progress bar"),
        ("lambda_callback", "0: LambdaCallback is for scripts; {build: my.module.make_callback}"),
        ("{name: learning_rate_scheduler, schedule: a}", "0: LearningRateScheduler is for scripts; the optimizer's le"),
        ("tensorboard", "0: expected its log_dir. Loss and metrics are in the run directory's events/ without it. Rec"),
        ("{build: keras.callbacks.None_}", "0.build: keras.callbacks has no None_"),
        ("{build: keras.metrics.Mean}", "0.build: expected a class or a function that makes a keras Callback. Receive"),
    ],
)
def test_a_callback_that_cannot_be_is_refused(config_file: Path, callback: str, message: str) -> None:
    (problem,) = found(config_file, f"fit.callbacks=[{callback}]")
    assert problem[0].startswith(f"fit.callbacks.{message}") and problem[1] == 2


def test_a_callback_that_waits_for_validations_needs_data_for_them(config_file: Path) -> None:
    waiting = "early_stopping, {name: reduce_lr_on_plateau, monitor: val_accuracy}"
    callbacks = f"fit.callbacks=[{waiting}, {{name: early_stopping, monitor: loss}}]"
    assert found(config_file, callbacks) == []
    problems = found(config_file, callbacks, "data.validation=null")
    expected = "expected to monitor a metric of the training, such as loss, as there is no data.validation. Received: "
    assert [problem.partition(expected)[::2] for problem, _ in problems] == [
        ("fit.callbacks.0: ", "val_loss"),
        ("fit.callbacks.1.monitor: ", "val_accuracy"),
    ]


def test_weights_of_classes_need_one_output(config_file: Path) -> None:
    model = f"model={{build: {__name__}.two_outputs}}"
    problems = found(config_file, model, "compile.loss=[mse, mse]", "fit.class_weight={0: 2}")
    assert problems[0][0].startswith("fit.class_weight: expected a model of one output; this one has left, right. ")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("model.args.inputs=[63]", "data.validation: the samples do not fit the model: .*shape=.None, 63.*Received sa"),
        ("compile.loss=categorical_crossentropy", "data.validation: the labels do not fit the model's output and comp"),
        ("data.validation.path=b.npz", "data.validation: Cannot read .*b.npz: No such file"),
        ("data.validation={format: csv, files: b.csv, label: y}", "data.validation: No such file: .*b.csv"),
    ],
)
def test_data_that_does_not_fit_is_found_without_reading_it(config_file: Path, entry: str, message: str) -> None:
    problem, code = found(config_file, entry)[-1]
    assert re.match(message, problem) and code == 5


def test_all_mistakes_are_found_at_once(config_file: Path) -> None:
    entries = ["compile.optimizer=adamx", "compile.metrics=[accuraci, auk]", "model.args.inputs=[63]", "fit.epochs=0"]
    keys = [problem.partition(":")[0] for problem, _ in found(config_file, *entries)]
    assert keys == ["compile.optimizer", "compile.metrics.0", "compile.metrics.1", "data.train", "data.validation"]


@pytest.mark.parametrize(
    "entries",
    [
        ["compile.optimizer={name: SGD, momentum: 0.9, learning_rate: 1}"],
        ["compile.optimizer={name: sgd, learning_rate: {name: CosineDecay, initial_learning_rate: 1, decay_steps: 9}}"],
        ["compile.optimizer={build: keras.optimizers.Adam, args: {learning_rate: 0.1}}"],
        ["compile.loss={name: sparse_categorical_crossentropy, ignore_class: 3}"],
        ["compile.metrics=[acc, binary_io_u, {name: binary_iou, target_class_ids: [0]}]"],
        ["compile.metrics=[mse, {name: sparse_top_k_categorical_accuracy, k: 3}, {build: keras.metrics.Mean}]"],
        [f"model={{build: {__name__}.two_outputs}}", "compile.loss={left: mse, right: {name: huber}}"],
        [f"compile.loss={{build: {__name__}.make_half_loss}}"],
    ],
)
def test_what_is_right_has_no_mistake(config_file: Path, entries: list[str]) -> None:
    assert [problem for problem in found(config_file, *entries) if not problem[0].startswith("data.")] == []


def config_of(config_file: Path, *overrides: str) -> RunConfig:
    return load_config(config_file, overrides)


def test_a_run_raises_all_mistakes_as_one_error(config_file: Path) -> None:
    config = config_of(config_file, "compile.optimizer=adamx", "compile.metrics=[accuraci]")
    with pytest.raises(ConfigError) as raised:
        checked_objects(config, tf.distribute.get_strategy())
    first, *mistakes = str(raised.value).split("\n  ")
    assert first == "the config has 2 mistakes:"
    assert [mistake.partition(":")[0] for mistake in mistakes] == ["compile.optimizer", "compile.metrics.0"]


def test_a_run_raises_what_code_of_the_users_own_has_raised(config_file: Path) -> None:
    config = config_of(config_file, f"model={{build: {__name__}.failing, args: {{inputs: 3}}}}", "compile.loss=xyz")
    with pytest.raises(KeyError, match="width"):
        checked_objects(config, tf.distribute.get_strategy())


def test_a_run_raises_an_error_of_the_data_where_the_config_is_right(config_file: Path) -> None:
    with pytest.raises(DataError, match="data.validation: Cannot read"):
        checked_objects(config_of(config_file, "data.validation.path=b.npz"), tf.distribute.get_strategy())


def test_the_model_of_a_run_is_compiled_as_the_config_says(config_file: Path) -> None:
    # Whole numbers, as people write them: Keras would compute the cosine in whole numbers, too.
    rate = "{name: cosine_decay, initial_learning_rate: 1, alpha: 0, decay_steps: 8}"
    optimizer = f"{{name: adamw, learning_rate: {rate}, clipnorm: 2, gradient_accumulation_steps: 3}}"
    config = config_of(
        config_file,
        f"compile.optimizer={optimizer}",
        "compile.jit_compile=false",
        "compile.steps_per_execution=4",
        "compile.weighted_metrics=[accuracy]",
        "fit.callbacks=[{name: early_stopping, patience: 7}, terminate_on_nan, {build: keras.callbacks.Callback}]",
    )
    made = checked_objects(config, tf.distribute.get_strategy())
    optimizer = made.model.optimizer
    assert isinstance(optimizer, keras.optimizers.AdamW)
    assert (optimizer.clipnorm, optimizer.gradient_accumulation_steps) == (2, 3)
    assert (made.model.jit_compile, made.model.steps_per_execution) == (False, 4)
    optimizer._iterations.assign(4)
    assert float(optimizer.learning_rate) == pytest.approx(0.5)
    stopping, on_nan, own = made.callbacks
    assert isinstance(stopping, keras.callbacks.EarlyStopping) and stopping.patience == 7
    assert isinstance(on_nan, keras.callbacks.TerminateOnNaN) and type(own) is keras.callbacks.Callback


@pytest.mark.parametrize("name", ["npz", "csv", "images", "text", "features"])
def test_headers_say_what_the_batches_are(folder: Path, name: str) -> None:  # noqa: F811
    section = sections(folder)[name]
    specs = sample_specs(section)
    x, y = from_config(section, batch_size=2).batches.element_spec
    assert specs is not None
    assert [(spec.dtype, (None, *spec.shape)) for spec in (specs.x, specs.y)] == [
        (spec.dtype.name, tuple(spec.shape)) for spec in (x, y)
    ]


@pytest.mark.parametrize("name", ["vectorized text", "parsed", "generator", "lanes"])
def test_what_headers_cannot_say_is_left_to_the_run(folder: Path, name: str) -> None:  # noqa: F811
    assert sample_specs(sections(folder)[name]) is None
